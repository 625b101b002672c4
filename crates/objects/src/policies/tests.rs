use super::*;
use crate::{Access, SizedCache};
use sweephand_policy::PageId;
use sweephand_policy::SplitMix64;
use sweephand_policy::conformance::run;

fn cache(name: &str, capacity_bytes: u64) -> SizedCache {
    SizedCache::new(of_name(name).unwrap().make(capacity_bytes), capacity_bytes)
}

/// A string with short and long distances of reuse.
fn string(seed: u64, length: usize) -> Vec<u32> {
    let mut random = SplitMix64::new(seed);
    (0..length).map(|_| (random.next_u64() % (2 << (random.next_u64() % 6))) as u32).collect()
}

/// With objects of one byte, each policy is its page policy.
#[test]
fn objects_of_one_byte_are_pages() {
    let of_pages =
        POLICIES.iter().filter(|entry| registry::POLICIES.iter().any(|page| page.info.name == entry.name));
    for entry in of_pages {
        for (seed, frames) in [(1, 3), (2, 10), (3, 20), (4, 40)] {
            let string = string(seed, 3_000);
            let mut cache = cache(entry.name, frames as u64);
            for (time, step) in run(entry.name, &string, frames).iter().enumerate() {
                let object = PageId(string[time]);
                let was_there = cache.contains(object);
                let before = cache.evictions();
                let access = cache.request(object, 1);
                let at = format!("{} with {frames} frames at {time}", entry.name);
                assert_eq!(access == Access::Hit, was_there, "{at}");
                assert_eq!(was_there, !step.fault, "{at}");
                assert_eq!(cache.evictions() - before, u64::from(step.victim.is_some()), "{at}");
                if let Some(victim) = step.victim {
                    assert!(!cache.contains(PageId(victim)), "{at}");
                }
            }
        }
    }
}

/// An object in a naive cache: who, how large, uses, priority.
#[derive(Clone, Copy)]
struct Naive {
    object: u32,
    bytes: u64,
    uses: u64,
    priority: f64,
}

/// Four policies over a plain list, the next to look at in front.
fn naive(name: &str, requests: &[(u32, u64)], capacity_bytes: u64) -> Vec<bool> {
    let mut list: Vec<Naive> = Vec::new();
    let mut inflation = 0.0;
    let mut hits = Vec::new();
    for &(object, bytes) in requests {
        let found = list.iter().position(|naive| naive.object == object);
        if let Some(found) = found.filter(|&found| list[found].bytes == bytes) {
            list[found].uses += 1;
            list[found].priority = inflation + list[found].uses as f64 / bytes as f64;
            if name == "lru" || name == "gdsf" {
                let naive = list.remove(found);
                list.push(naive);
            }
            hits.push(true);
            continue;
        }
        hits.push(false);
        if let Some(found) = found {
            list.remove(found);
        }
        if bytes > capacity_bytes {
            continue;
        }
        let priority = inflation + 1.0 / bytes as f64;
        let mut is_refused = false;
        while list.iter().map(|naive| naive.bytes).sum::<u64>() + bytes > capacity_bytes {
            let least = list.iter().map(|naive| naive.priority).fold(f64::INFINITY, f64::min);
            if name == "gdsf" && priority < least {
                inflation = priority;
                is_refused = true;
                break;
            }
            let at = match name {
                "gdsf" => list.iter().position(|naive| naive.priority == least).unwrap(),
                _ => 0,
            };
            let mut victim = list.remove(at);
            if name == "clock" && victim.uses > 1 {
                victim.uses = 1;
                list.push(victim);
            } else if name == "gdsf" {
                inflation = victim.priority;
            }
        }
        if !is_refused {
            list.push(Naive { object, bytes, uses: 1, priority });
        }
    }
    hits
}

/// Sizes from 1 to 64 bytes, which change now and then.
#[test]
fn policies_equal_their_naive_models() {
    for name in ["fifo", "lru", "clock", "gdsf"] {
        for seed in 0..20 {
            let mut random = SplitMix64::new(seed);
            let mut sizes = vec![0_u64; 64];
            let requests: Vec<(u32, u64)> = string(seed, 2_000)
                .into_iter()
                .map(|object| {
                    let size = &mut sizes[object as usize];
                    if *size == 0 || random.below(50) == 0 {
                        *size = 1 + random.next_u64() % 64;
                    }
                    (object, *size)
                })
                .collect();
            for capacity_bytes in [40, 200, 1_000] {
                let mut cache = cache(name, capacity_bytes);
                let expected = naive(name, &requests, capacity_bytes);
                for (time, (&(object, bytes), hit)) in requests.iter().zip(expected).enumerate() {
                    let access = cache.request(PageId(object), bytes);
                    let at = format!("{name}, seed {seed}, {capacity_bytes} bytes, at {time}");
                    assert_eq!(access == Access::Hit, hit, "{at}");
                    assert!(cache.bytes() <= capacity_bytes, "{at}: {} bytes", cache.bytes());
                }
            }
        }
    }
}

/// Under every policy: the bytes are those of the objects in the cache, and a deleted object is
/// not.
#[test]
fn counts_of_bytes_hold_under_deletions() {
    for entry in &POLICIES {
        let mut random = SplitMix64::new(9);
        let sizes: Vec<u64> = (0..64).map(|_| 1 + random.next_u64() % 300).collect();
        let mut cache = cache(entry.name, 1_000);
        for object in string(7, 20_000).into_iter().map(PageId) {
            if random.below(10) == 0 {
                cache.remove(object);
                assert!(!cache.contains(object), "{}", entry.name);
            } else {
                let access = cache.request(object, sizes[object.index()]);
                assert_eq!(cache.contains(object), access != Access::Passed, "{}", entry.name);
            }
            let bytes: u64 =
                (0..64).filter(|&id| cache.contains(PageId(id))).map(|id| sizes[id as usize]).sum();
            assert!(bytes == cache.bytes() && bytes <= 1_000, "{}: {bytes}", entry.name);
        }
    }
}

fn requests(cache: &mut SizedCache, requests: &[(u32, u64)]) -> Vec<Access> {
    requests.iter().map(|&(object, bytes)| cache.request(PageId(object), bytes)).collect()
}

/// 10 bytes. Object 1 has 2 uses in 4 bytes (0.5), object 2 has 1 in 5 (0.2), object 3 would have 1
/// in 6 (0.17): it does not come in, and L is 0.17. So it has 0.33 the next time, and 2 goes for
/// it. L is 0.2 then. Object 4 has 0.2 + 1/2 and comes in for 3; L is 0.33.
#[test]
fn gdsf_follows_the_worked_example() {
    use Access::{Admitted, Hit, Passed};
    let mut cache = cache("gdsf", 10);
    let asked = requests(&mut cache, &[(1, 4), (1, 4), (2, 5), (3, 6), (3, 6), (4, 2), (1, 4)]);
    assert_eq!(asked, [Admitted, Hit, Admitted, Passed, Admitted, Admitted, Hit]);
    let there: Vec<u32> = (1..5).filter(|&object| cache.contains(PageId(object))).collect();
    assert_eq!(there, [1, 4]);
}

/// 20 bytes, 2 in the small queue. An object with two hits goes on to the main queue, one without
/// becomes a ghost, and a ghost comes back into the main queue.
#[test]
fn s3_fifo_follows_the_worked_example() {
    use Access::{Admitted, Hit};
    let mut cache = cache("s3-fifo", 20);
    let asked = requests(&mut cache, &[(1, 8), (1, 8), (1, 8), (2, 8), (3, 8), (2, 8), (4, 4), (5, 4)]);
    // 3: 1 goes to the main queue, 2 becomes a ghost. 2 comes back into the main queue, for 3.
    assert_eq!(asked, [Admitted, Hit, Hit, Admitted, Admitted, Admitted, Admitted, Admitted]);
    let there: Vec<u32> = (1..6).filter(|&object| cache.contains(PageId(object))).collect();
    assert_eq!(there, [1, 2, 5]); // 5: 4 is in the small queue, which is long enough
}

/// 200 bytes, 2 in the window. What is larger must have been used more often than what would go.
#[test]
fn w_tinylfu_follows_the_worked_example() {
    use Access::{Admitted, Hit, Passed};
    let mut cache = cache("w-tinylfu", 200);
    assert_eq!(requests(&mut cache, &[(1, 100), (1, 100), (2, 100)]), [Admitted, Hit, Admitted]);
    // Object 2, on probation, has one use, as 3 has; then 3 has two.
    assert_eq!(requests(&mut cache, &[(3, 50), (3, 50), (2, 100)]), [Passed, Admitted, Passed]);
    assert!(cache.contains(PageId(1)) && cache.contains(PageId(3)));
}

#[test]
fn other_policies_are_refused_with_a_reason() {
    let message = |name| of_name(name).unwrap_err().to_string();
    assert!(message("clock-pro").starts_with("policy 'clock-pro': it counts pages, and has no version for"));
    assert!(
        message("lur").starts_with("policy 'lur': there is no such policy (did you mean lru?); known: fifo")
    );
}
