//! MQ, multi-queue: LRU queues by the logarithm of the reference count, and a history of evicted
//! pages' counts.
//!
//! Decision: the history is asked for the page faulted on after the victim has entered it.

use super::{Given, Step};

/// The parameters of MQ.
#[derive(Clone, Copy, Debug)]
pub struct MqOptions {
    /// Number of queues.
    pub queues: usize,
    /// References without use after which a page sinks.
    pub life: u64,
    /// Most pages in the history.
    pub history: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    page: u32,
    count: u32,
    expire: u64,
}

/// MQ with `frames` frames.
pub fn mq(references: &[u32], frames: usize, options: &MqOptions) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut queues: Vec<Vec<Entry>> = vec![Vec::new(); options.queues]; // each: least recent first
    let mut out: Vec<(u32, u32)> = Vec::new(); // page and count, earliest eviction first
    let mut steps = Vec::new();
    for (time, &page) in (1_u64..).zip(references) {
        let expire = time + options.life;
        let found = queues
            .iter()
            .enumerate()
            .find_map(|(k, queue)| Some((k, queue.iter().position(|entry| entry.page == page)?)));
        let count;
        if let Some((k, position)) = found {
            count = queues[k].remove(position).count + 1;
            steps.push(Step::hit());
        } else {
            let mut victim = None;
            if queues.iter().map(Vec::len).sum::<usize>() == frames {
                let lowest = queues.iter_mut().find(|queue| !queue.is_empty()).expect("memory is full");
                let evicted = lowest.remove(0);
                out.push((evicted.page, evicted.count));
                if out.len() > options.history {
                    out.remove(0);
                }
                victim = Some(evicted.page);
            }
            count = out.iter().find(|ghost| ghost.0 == page).map_or(1, |ghost| ghost.1 + 1);
            out.retain(|ghost| ghost.0 != page);
            steps.push(Step::fault(victim));
        }
        let queue = (f64::from(count).log2().floor() as usize).min(options.queues - 1);
        queues[queue].push(Entry { page, count, expire });
        for k in 1..options.queues {
            if queues[k].first().is_some_and(|oldest| oldest.expire < time) {
                let oldest = queues[k].remove(0);
                queues[k - 1].push(Entry { expire, ..oldest });
            }
        }
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let options = MqOptions {
        queues: given.whole("queues") as usize,
        life: (given.factor("life") * frames as f64) as u64,
        history: (given.factor("history") * frames as f64) as usize,
    };
    mq(references, frames, &options)
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::{MqOptions, mq};

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| {
            mq(refs, frames, &MqOptions { queues: 8, life: 4 * frames as u64, history: 4 * frames })
        });
        assert_eq!(row, "10:1234512 | 15:12345123451 | 10:345678");
    }
}
