//! Whose pages they are, in a trace of a log with a column of tenants.
//!
//! This is an optional part of a trace's metadata
//! ([`Metadata::tenants`](crate::Metadata::tenants)), which older versions ignore.

use serde::{Deserialize, Serialize};

/// The tenants of a log: clients, volumes or disks with keys or offsets of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenants {
    /// Their names, in the order of their first requests.
    pub names: Vec<String>,
    /// Page numbers that each object has to itself, or, if `of_objects` is empty, each tenant.
    pub pages_each: u64,
    /// Of a log with keys: whose the objects are, in the order of their first requests. A tenant,
    /// and how many objects in a row are its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of_objects: Vec<(u32, u32)>,
}

impl Tenants {
    /// The next object is this tenant's.
    pub(crate) fn push_object(&mut self, tenant: u32) {
        match self.of_objects.last_mut() {
            Some((last, count)) if *last == tenant && *count < u32::MAX => *count += 1,
            _ => self.of_objects.push((tenant, 1)),
        }
    }

    /// A table for looking tenants up.
    pub fn by_page(&self) -> TenantOfPage {
        let repeated = self.of_objects.iter().map(|&(tenant, count)| (tenant, count as usize));
        let of_objects = repeated.flat_map(|(tenant, count)| std::iter::repeat_n(tenant, count)).collect();
        TenantOfPage { pages_each: self.pages_each.max(1), of_objects }
    }
}

/// The tenant of each page number.
#[derive(Clone, Debug)]
pub struct TenantOfPage {
    pages_each: u64,
    of_objects: Vec<u32>,
}

impl TenantOfPage {
    /// The number of the tenant that a page number belongs to, in [`Tenants::names`]. `None` if it
    /// is none of the log's.
    pub fn of(&self, page_number: u64) -> Option<u32> {
        let index = page_number / self.pages_each;
        if self.of_objects.is_empty() {
            return u32::try_from(index).ok();
        }
        self.of_objects.get(usize::try_from(index).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_tenants_by_object_or_by_range() {
        let mut tenants = Tenants { pages_each: 16, ..Tenants::default() };
        [0, 0, 1, 0].into_iter().for_each(|tenant| tenants.push_object(tenant));
        assert_eq!(tenants.of_objects, [(0, 2), (1, 1), (0, 1)]);
        let by_page = tenants.by_page();
        let of: Vec<_> = [0, 31, 32, 47, 48, 64].map(|page| by_page.of(page)).to_vec();
        assert_eq!(of, [Some(0), Some(0), Some(1), Some(1), Some(0), None]);
        let by_range = Tenants { pages_each: 1 << 40, ..Tenants::default() }.by_page();
        assert_eq!((by_range.of(7), by_range.of((3 << 40) + 7)), (Some(0), Some(3)));
    }
}
