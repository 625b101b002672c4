# The inner loop, with how long each step takes on two processors once the project is built.
# `just` lists the steps.

export CARGO_INCREMENTAL := "1"

default:
    @just --list --unsorted

# types of everything: seconds
check:
    cargo check --workspace --all-targets --all-features

# tests of one crate, such as `just test sweephand-trace`: seconds to two minutes
test crate *filter:
    cargo test -p {{crate}} --all-features -- {{filter}}

# words, rules for sources, generated pages: half a minute
words:
    cargo test -p sweephand --test prose --test source_rules --test docs

# formatting and lints: one to four minutes
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets --all-features -- -D warnings

# the core's tests: six minutes after the first command of the README
quick:
    cargo quick

# all tests, as root: half an hour
full:
    cargo full

# what CI runs, as root: an hour
ci:
    .ci/run

# what takes hours
nightly *parts:
    .ci/nightly {{parts}}
