//! The numbers that stand for the names in a log: of objects, tenants and address spaces.

use super::value::Value;
use crate::Error;
use crate::lines::Refused;
use crate::tenants::Tenants;
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

/// The hash of a key or a tenant: 96 bits. With its number it takes 16 bytes, so that a look-up
/// costs one cache miss.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Name([u32; 3]);

/// Numbers in the order of first requests.
#[derive(Default)]
pub(super) struct Names {
    /// Of objects, and of pieces of large ones, by the hash of tenant and key.
    objects: FxHashMap<Name, u32>,
    /// How many of these are pieces.
    pieces: u64,
    /// Of tenants, by the hash of the name.
    tenant_numbers: FxHashMap<Name, u32>,
    /// The tenants' names, and whose the objects are.
    tenants: Tenants,
    /// Of address spaces, by tenant and what the offset has beyond one. Only for offsets of
    /// tenants.
    spaces: FxHashMap<(u64, u64), u64>,
}

impl Names {
    /// The number of an object, or of the first piece of a large one.
    #[inline]
    pub(super) fn object(&mut self, name: Name, tenant: Option<u64>) -> Result<u64, Refused> {
        let known = self.objects.len();
        let number = number_of(&mut self.objects, name)?;
        if let Some(tenant) = tenant
            && self.objects.len() > known
        {
            self.tenants.push_object(tenant as u32);
        }
        Ok(number)
    }

    /// The number of another piece of a large object.
    pub(super) fn piece(&mut self, name: Name, piece: u64, tenant: Option<u64>) -> Result<u64, Refused> {
        let known = self.objects.len();
        let number = self.object(name.piece(piece), tenant)?;
        self.pieces += (self.objects.len() - known) as u64;
        Ok(number)
    }

    /// The number of a piece that has been requested.
    pub(super) fn known_piece(&self, name: Name, piece: u64) -> Option<u64> {
        self.objects.get(&name.piece(piece)).map(|number| u64::from(*number))
    }

    /// The number of a tenant.
    pub(super) fn tenant(&mut self, value: Value<'_>) -> Result<u64, Refused> {
        let name = Name::of(value, 0).ok_or("no tenant")?;
        let number = number_of(&mut self.tenant_numbers, name)?;
        if number as usize == self.tenants.names.len() {
            self.tenants.names.push(value.to_string());
        }
        Ok(number)
    }

    /// The number of a tenant's address space.
    pub(super) fn space(&mut self, tenant: u64, beyond: u64) -> u64 {
        let fresh = self.spaces.len() as u64;
        let space = *self.spaces.entry((tenant, beyond)).or_insert(fresh);
        if space == fresh {
            self.tenants.push_object(tenant as u32);
        }
        space
    }

    /// How many objects there are.
    pub(super) fn objects(&self) -> u64 {
        self.objects.len() as u64 - self.pieces
    }

    /// How many tenants there are.
    pub(super) fn tenants(&self) -> u64 {
        self.tenants.names.len() as u64
    }

    /// The tenants. Each object or address space has `pages_each` pages of its own.
    pub(super) fn into_tenants(self, pages_each: u64, has_keys: bool) -> Tenants {
        let mut tenants = Tenants { pages_each, ..self.tenants };
        if !has_keys && self.spaces.len() == tenants.names.len() {
            // A tenant has one address space, of its own number.
            tenants.of_objects.clear();
        }
        tenants
    }
}

impl Name {
    /// The hash of a value; `None` if it is empty.
    pub(super) fn of(value: Value<'_>, seed: u64) -> Option<Self> {
        let hash = |bytes: &[u8]| if seed == 0 { xxh3_128(bytes) } else { xxh3_128_with_seed(bytes, seed) };
        let hash = match value {
            Value::Absent | Value::Text([]) => return None,
            Value::Text(text) => hash(text),
            Value::Number(number) => hash(&number.to_le_bytes()),
            // Both zeros are one.
            Value::Real(number) | Value::Rounded(number) => hash(&(number + 0.0).to_bits().to_le_bytes()),
        };
        Some(Self([hash as u32, (hash >> 32) as u32, (hash >> 64) as u32]))
    }

    /// The name of a part of the object. An object without one is a part of its own.
    pub(super) fn part(self, part: Value<'_>) -> Self {
        let [low, middle, high] = self.0;
        let seed = u64::from(low) | u64::from(middle) << 32;
        match Self::of(part, seed) {
            // The seed has lost a third of the name.
            Some(Self([first, second, third])) => Self([first, second, third ^ high]),
            None => self,
        }
    }

    /// The name of a piece of a large object: what is beyond the object's own addresses.
    fn piece(self, piece: u64) -> Self {
        let mut bytes = [0; 20];
        let (name, number) = bytes.split_at_mut(12);
        name.copy_from_slice(self.0.map(u32::to_le_bytes).as_flattened());
        number.copy_from_slice(&piece.to_le_bytes());
        let hash = xxh3_128_with_seed(&bytes, piece);
        Self([hash as u32, (hash >> 32) as u32, (hash >> 64) as u32])
    }
}

/// The number of a name: that of its first request.
fn number_of(numbers: &mut FxHashMap<Name, u32>, name: Name) -> Result<u64, Refused> {
    let fresh = u32::try_from(numbers.len()).map_err(|_| Error::too_many_pages())?;
    Ok(u64::from(*numbers.entry(name).or_insert(fresh)))
}
