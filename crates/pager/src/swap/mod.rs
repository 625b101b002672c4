//! Programs under the kernel's paging, directed by a policy (`sweephand-director`): one that is
//! started so, with `run --backend swap`, and one that runs already, with `run --pid`.

mod attached;
mod directing;
mod run;

pub use attached::AttachedRun;
pub use run::SwapRun;
