//! MGLRU, the multi-generational LRU of Linux, reduced to one type of page: numbered generations of
//! pages.
//!
//! Decision: a page that the walk finds referenced in the youngest generation keeps its place
//! there.

use super::Step;

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u32,
    referenced: bool,
    generation: u64,
}

/// MGLRU with `frames` frames: at least two generations, at most four.
pub fn mglru(references: &[u32], frames: usize) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut memory: Vec<Entry> = Vec::new(); // within a generation: the earliest to enter it first
    let (mut min_seq, mut max_seq) = (0, 1);
    let mut steps = Vec::new();
    for &page in references {
        if let Some(entry) = memory.iter_mut().find(|entry| entry.page == page) {
            entry.referenced = true;
            steps.push(Step::hit());
            continue;
        }
        let mut victim = None;
        while memory.len() == frames {
            let Some(oldest) = memory.iter().position(|entry| entry.generation == min_seq) else {
                if max_seq - min_seq >= 2 {
                    min_seq += 1;
                    continue;
                }
                // The walk.
                for position in 0..memory.len() {
                    if memory[position].referenced && memory[position].generation < max_seq {
                        let entry = memory.remove(position);
                        memory.push(Entry { generation: max_seq, ..entry });
                    }
                }
                memory.iter_mut().for_each(|entry| entry.referenced = false);
                max_seq += 1;
                if max_seq - min_seq == 4 {
                    min_seq += 1;
                    for entry in &mut memory {
                        entry.generation = entry.generation.max(min_seq);
                    }
                }
                continue;
            };
            let entry = memory.remove(oldest);
            if entry.referenced {
                memory.push(Entry { referenced: false, generation: max_seq, ..entry });
            } else {
                victim = Some(entry.page);
            }
        }
        memory.push(Entry { page, referenced: false, generation: max_seq - 1 });
        steps.push(Step::fault(victim));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::super::tests::verification_row;
    use super::mglru;

    #[test]
    fn verification_table() {
        assert_eq!(verification_row(mglru), "10:1234534 | 15:12345123451 | 10:345678");
    }
}
