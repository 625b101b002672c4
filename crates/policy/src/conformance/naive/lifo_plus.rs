//! LIFO+: a stack an object; a pointer below the top spares referenced pages.
//!
//! CLOCK over all pages says which object gives up a page when there are several. Each of the two
//! lists has a copy of every reference bit.

use super::Step;

struct Page {
    id: u32,
    object: u32,
    stack_bit: bool,
    clock_bit: bool,
}

struct Stack {
    object: u32,
    /// Top first.
    pages: Vec<u32>,
    /// Index of the page to look at next.
    rhead: usize,
}

/// LIFO+ with `frames` frames; `object` tells which object a page belongs to.
pub fn lifo_plus(references: &[u32], frames: usize, object: impl Fn(u32) -> u32) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut clock: Vec<Page> = Vec::new(); // from the hand on
    let mut stacks: Vec<Stack> = Vec::new();
    let mut steps = Vec::new();
    for &page in references {
        if let Some(entry) = clock.iter_mut().find(|entry| entry.id == page) {
            (entry.stack_bit, entry.clock_bit) = (true, true);
            steps.push(Step::hit());
            continue;
        }
        let victim = (clock.len() == frames).then(|| evict(&mut clock, &mut stacks));
        let object = object(page);
        if !stacks.iter().any(|stack| stack.object == object) {
            stacks.push(Stack { object, pages: Vec::new(), rhead: 0 });
        }
        let stack = stacks.iter_mut().find(|stack| stack.object == object).expect("just made");
        if let Some(top) = stack.pages.first() {
            clock.iter_mut().find(|entry| entry.id == *top).expect("resident").stack_bit = false;
        }
        stack.pages.insert(0, page);
        stack.rhead = 1.min(stack.pages.len() - 1);
        clock.push(Page { id: page, object, stack_bit: false, clock_bit: false });
        steps.push(Step::fault(victim));
    }
    steps
}

fn evict(clock: &mut Vec<Page>, stacks: &mut Vec<Stack>) -> u32 {
    let mut object = stacks[0].object;
    if stacks.len() > 1 {
        loop {
            clock.rotate_left(1);
            let passed = clock.last_mut().expect("memory is full");
            object = passed.object;
            if !std::mem::take(&mut passed.clock_bit) {
                break;
            }
        }
    }
    let stack = stacks.iter_mut().find(|stack| stack.object == object).expect("it has a page");
    let victim = loop {
        let page = stack.pages[stack.rhead];
        stack.rhead = (stack.rhead + 1) % stack.pages.len();
        let entry = clock.iter_mut().find(|entry| entry.id == page).expect("resident");
        if !std::mem::take(&mut entry.stack_bit) {
            break page;
        }
    };
    let place = stack.pages.iter().position(|page| *page == victim).expect("it was there");
    stack.pages.remove(place);
    if stack.rhead > place {
        stack.rhead -= 1;
    }
    stacks.retain(|stack| !stack.pages.is_empty());
    clock.retain(|entry| entry.id != victim);
    victim
}

#[cfg(test)]
mod tests {
    use super::super::tests::{outcome, outcomes_on_examples};
    use super::lifo_plus;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| lifo_plus(refs, frames, |_| 0));
        assert_eq!(row, "9:234523 | 11:3453453 | 10:345678");
    }

    #[test]
    fn follows_the_worked_example() {
        let steps = lifo_plus(&[1, 2, 3, 4, 5, 4, 3, 6, 6, 5, 7, 8], 5, |_| 0);
        assert_eq!(outcome(&steps), "8:246");
    }
}
