//! Policies written in Python.
//!
//! ```text
//! Sweep ─▶ Engine<Plugged<model>> ─▶ PyPolicy ─▶ the object's methods        a fault: victim, evict, insert
//!                                       ▲  hits, gathered until the next fault: hits
//!              Mmu ◀────────────────────┘  test_and_clear_referenced, while such a method runs
//! ```
//!
//! In the VM model hits stay in Rust. Policies that see hits get them in batches. No decision
//! depends on a hit before the next fault, so a batch says the same as one call for each hit. The
//! interpreter is held for a chunk of the trace at a time.
//!
//! If a method raises an exception, or returns what breaks a rule, the simulation ends by a panic
//! with [`Failed`]. The function that started the simulation catches it; [`Trouble`] holds the
//! exception meanwhile.

use crate::error::{SweephandError, raise};
use crate::wait::Watch;
use numpy::IntoPyArray;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::panic::resume_unwind;
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock, Mutex};
use sweephand_policy::conformance::{Extent, conform_to};
use sweephand_policy::plugin::{Failed, Plugin, PolicyObject, Shown};
use sweephand_policy::registry::{self, Spec};
use sweephand_policy::{ArgumentError, Arguments, ColdAllocation, Info, NEVER, PageId, Reference, Violation};
use sweephand_trace::Interrupt;

/// Hits gathered at most before the policy is shown them.
const MOST_HITS: usize = 1 << 16;

/// The exception that ended a policy.
type Trouble = Arc<Mutex<Option<PyErr>>>;

/// A reference, as a policy is shown it.
#[pyclass(name = "Reference", frozen, get_all, module = "sweephand")]
pub(crate) struct PyReference {
    /// The page: ids count up from 0 by first touch.
    page: u32,
    /// Its number in its address space, where the policy asks for places; the id otherwise.
    page_number: u64,
    /// The object (allocation) it belongs to, where the policy asks for places; 0 otherwise.
    object: u32,
    /// In the offline model: the time, in references, of the next reference to it after the present
    /// run of them; None if there is none.
    next_use: Option<u32>,
}

impl From<Reference> for PyReference {
    fn from(reference: Reference) -> Self {
        let Reference { page, page_number, object, next_use } = reference;
        Self { page: page.0, page_number, object, next_use: Some(next_use).filter(|time| *time != NEVER) }
    }
}

/// What a policy may ask of the memory-management unit.
#[pyclass(module = "sweephand")]
pub(crate) struct Mmu {
    /// There while a method of the policy runs that is given it.
    mmu: Option<Lent>,
    /// By page id.
    resident: Vec<bool>,
    residents: usize,
}

/// An MMU that is borrowed for the time of a call.
struct Lent(NonNull<dyn sweephand_policy::Mmu>);

// SAFETY: it is used through `Mmu` only, whose users Python objects take turns at (`borrow_mut`),
// and only while the thread that lent it waits in `PyPolicy::with_mmu`.
unsafe impl Send for Lent {}
// SAFETY: there is nothing to be done with a shared one.
unsafe impl Sync for Lent {}

#[pymethods]
impl Mmu {
    /// Returns the reference bit of a resident page, and clears it.
    fn test_and_clear_referenced(&mut self, page: u32) -> PyResult<bool> {
        let Some(lent) = &mut self.mmu else {
            return Err(raise("the MMU can be asked only by the method that it was given to"));
        };
        if !self.resident.get(page as usize).copied().unwrap_or_default() {
            return Err(raise(format!("page {page} has no reference bit: it is not resident")));
        }
        // SAFETY: it was made from a reference that is alive as long as it is here.
        Ok(unsafe { lent.0.as_mut() }.test_and_clear_referenced(PageId(page)))
    }
}

impl Mmu {
    fn set_resident(&mut self, page: PageId, is_resident: bool) {
        if self.resident.len() <= page.index() {
            self.resident.resize(page.index() + 1, false);
        }
        let was = std::mem::replace(&mut self.resident[page.index()], is_resident);
        self.residents = self.residents + usize::from(is_resident) - usize::from(was);
    }

    fn is_resident(&self, page: u32) -> bool {
        self.resident.get(page as usize).copied().unwrap_or_default()
    }
}

/// A class of policies, or anything else that makes one of a number of frames.
pub(crate) struct PyPlugin {
    factory: Py<PyAny>,
    info: &'static Info,
    shown: Shown,
    needs_places: bool,
    trouble: Trouble,
    interrupt: Interrupt,
}

impl fmt::Debug for PyPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PyPlugin").field("name", &self.info.name).finish_non_exhaustive()
    }
}

impl PyPlugin {
    /// What a class says of its policies: one of them is made to see.
    fn new(factory: &Bound<'_, PyAny>, interrupt: &Interrupt) -> PyResult<Self> {
        if !factory.is_callable() {
            let hint = match attribute(factory, "victim")? {
                Some(_) => format!(" (did you mean the class {}?)", factory.get_type().name()?),
                None => String::new(),
            };
            return Err(raise(format!(
                "policy {}: give a name, or a class, or a function that makes a policy for a number of frames{hint}",
                factory.repr()?
            )));
        }
        let policy = factory.call1((1,))?;
        let name = name(&policy)?;
        let shown = shown(&policy, &name)?;
        check_methods(&policy, &name, shown)?;
        let needs_places = needs_places(&policy, &name)?;
        Ok(Self {
            factory: factory.clone().unbind(),
            info: info(name),
            shown,
            needs_places,
            trouble: Trouble::default(),
            interrupt: interrupt.clone(),
        })
    }
}

/// What a policy's own declarations are refused with.
fn wrong(name: &str, reason: &str) -> PyErr {
    raise(format!("policy '{name}': {reason}"))
}

/// A policy's attribute `name`, or else the name of its class.
fn name(policy: &Bound<'_, PyAny>) -> PyResult<String> {
    let class = policy.get_type().name()?.to_string();
    if policy.is_instance_of::<PyType>() {
        let name: String = policy.getattr("__name__")?.extract()?;
        return Err(wrong(
            &name,
            "the function made the class; have it call the class with the number of frames",
        ));
    }
    let name = match policy.getattr_opt("name")? {
        Some(name) => match name.extract::<String>() {
            Ok(name) => name,
            Err(_) => return Err(wrong(&class, &format!("name {}: a name is a string", name.repr()?))),
        },
        None => class,
    };
    if name.is_empty() || name.contains([':', ',']) {
        return Err(wrong(&name, "a name has no colon and no comma, and is not empty"));
    }
    if registry::entries().iter().any(|entry| entry.info.name == name) {
        let reason = "is what a built-in one is called; give yours another (an attribute `name`)";
        return Err(wrong(&name, reason));
    }
    Ok(name)
}

/// What a policy asks to be shown, by its attribute `model`.
fn shown(policy: &Bound<'_, PyAny>, name: &str) -> PyResult<Shown> {
    let Some(model) = policy.getattr_opt("model")? else { return Ok(Shown::Faults) };
    match model.extract::<String>().as_deref() {
        Ok("vm") => Ok(Shown::Faults),
        Ok("exact") => Ok(Shown::Hits),
        Ok("offline") => Ok(Shown::Future),
        _ => Err(wrong(name, &format!("model {}: write 'vm', 'exact' or 'offline'", model.repr()?))),
    }
}

/// Whether a policy has the methods that every policy has, and those that its model calls.
fn check_methods(policy: &Bound<'_, PyAny>, name: &str, shown: Shown) -> PyResult<()> {
    for method in ["victim", "evict", "insert", "remove"] {
        if attribute(policy, method)?.is_none() {
            return Err(wrong(name, &format!("has no method {method}")));
        }
    }
    if shown != Shown::Faults && attribute(policy, "hit")?.is_none() && attribute(policy, "hits")?.is_none() {
        return Err(wrong(name, "has no method hit or hits, which show it what its model asks for"));
    }
    Ok(())
}

/// Whether a policy asks for the places of pages, by its attribute of that name.
fn needs_places(policy: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    let Some(needs) = policy.getattr_opt("needs_places")? else { return Ok(false) };
    match needs.extract::<bool>() {
        Ok(needs) => Ok(needs),
        Err(_) => Err(wrong(name, &format!("needs_places {}: write True or False", needs.repr()?))),
    }
}

/// An attribute, if it is there and not None.
fn attribute<'py>(policy: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(policy.getattr_opt(name)?.filter(|value| !value.is_none()))
}

/// What the registry would say of a policy of this name. Kept for good, once for each name.
fn info(name: String) -> &'static Info {
    static KNOWN: LazyLock<Mutex<HashMap<String, &'static Info>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().expect("no thread panics while it holds the lock");
    known.entry(name).or_insert_with_key(|name| {
        let name: &str = Box::leak(name.clone().into_boxed_str());
        Box::leak(Box::new(Info { name, summary: "", paper: "", parameters: &[], presets: &[] }))
    })
}

impl Plugin for PyPlugin {
    fn info(&self) -> &'static Info {
        self.info
    }

    fn shown(&self) -> Shown {
        self.shown
    }

    fn needs_places(&self) -> bool {
        self.needs_places
    }

    fn make(&self, frames: usize, _: &Arguments) -> Result<Box<dyn PolicyObject>, ArgumentError> {
        let made = Python::attach(|py| PyPolicy::new(self, self.factory.bind(py).call1((frames,))?));
        match made {
            Ok(policy) => Ok(Box::new(policy)),
            Err(error) => {
                let reason = error.to_string();
                self.trouble.lock().expect("no thread panics while it holds the lock").get_or_insert(error);
                Err(ArgumentError { policy: self.info.name.to_string(), reason })
            }
        }
    }

    /// The interpreter is taken once for a whole chunk, not at every call.
    fn during(&self, work: &mut dyn FnMut()) {
        Python::attach(|_| work());
    }
}

/// A policy in Python. The fields are the methods that its class may have.
struct PyPolicy {
    name: &'static str,
    object: Py<PyAny>,
    fault: Option<Py<PyAny>>,
    victim: Py<PyAny>,
    evict: Py<PyAny>,
    insert: Py<PyAny>,
    hit: Option<Py<PyAny>>,
    hits: Option<Py<PyAny>>,
    remove: Py<PyAny>,
    assign: Option<Py<PyAny>>,
    renumber: Option<Py<PyAny>>,
    free_object: Option<Py<PyAny>>,
    check: Option<Py<PyAny>>,
    mmu: Py<Mmu>,
    shown: Shown,
    /// Hits that it has not been shown yet.
    pending: RefCell<Vec<Reference>>,
    trouble: Trouble,
    interrupt: Interrupt,
}

impl PyPolicy {
    fn new(plugin: &PyPlugin, policy: Bound<'_, PyAny>) -> PyResult<Self> {
        let method = |name: &str| Ok::<_, PyErr>(attribute(&policy, name)?.map(Bound::unbind));
        let needed = |name: &str| Ok::<_, PyErr>(policy.getattr(name)?.unbind());
        Ok(Self {
            name: plugin.info.name,
            fault: method("fault")?,
            victim: needed("victim")?,
            evict: needed("evict")?,
            insert: needed("insert")?,
            hit: method("hit")?,
            hits: method("hits")?,
            remove: needed("remove")?,
            assign: method("assign")?,
            renumber: method("renumber")?,
            free_object: method("free_object")?,
            check: method("check")?,
            mmu: Py::new(policy.py(), Mmu { mmu: None, resident: Vec::new(), residents: 0 })?,
            shown: plugin.shown,
            pending: RefCell::default(),
            trouble: Arc::clone(&plugin.trouble),
            interrupt: plugin.interrupt.clone(),
            object: policy.unbind(),
        })
    }

    /// Does something with the interpreter; what goes wrong there ends the simulation.
    fn attached<T>(&self, work: impl FnOnce(Python<'_>) -> PyResult<T>) -> T {
        Python::attach(work).unwrap_or_else(|error| {
            let words = Python::attach(|py| match error.is_instance_of::<SweephandError>(py) {
                true => error.value(py).to_string(),
                false => error.to_string(),
            });
            self.trouble.lock().expect("no thread panics while it holds the lock").get_or_insert(error);
            resume_unwind(Box::new(Failed(words)))
        })
    }

    /// An exception about what the policy did.
    fn broken(&self, what: &str) -> PyErr {
        raise(format!("policy '{}': {what}", self.name))
    }

    /// Shows the policy the hits that were gathered.
    fn show_hits(&self, py: Python<'_>) -> PyResult<()> {
        let pending = &mut *self.pending.borrow_mut();
        if pending.is_empty() {
            return Ok(());
        }
        match (&self.hits, &self.hit) {
            (Some(hits), _) => {
                let pages: Vec<u32> = pending.iter().map(|reference| reference.page.0).collect();
                let pages = pages.into_pyarray(py);
                if self.shown == Shown::Future {
                    let next_uses: Vec<u32> = pending.iter().map(|reference| reference.next_use).collect();
                    hits.call1(py, (pages, next_uses.into_pyarray(py)))?;
                } else {
                    hits.call1(py, (pages,))?;
                }
            }
            (None, Some(hit)) => {
                for reference in &*pending {
                    hit.call1(py, (PyReference::from(*reference),))?;
                }
            }
            (None, None) => unreachable!("it was looked for"),
        }
        pending.clear();
        Ok(())
    }

    /// Calls a method that may ask the MMU.
    fn with_mmu<T>(
        &self,
        py: Python<'_>,
        mmu: &mut dyn sweephand_policy::Mmu,
        call: impl FnOnce(&Py<Mmu>) -> PyResult<T>,
    ) -> PyResult<T> {
        // SAFETY: it differs in its lifetime only, and is taken back before that ends.
        let lent = unsafe {
            std::mem::transmute::<NonNull<dyn sweephand_policy::Mmu + '_>, NonNull<dyn sweephand_policy::Mmu>>(
                NonNull::from(mmu),
            )
        };
        self.mmu.borrow_mut(py).mmu = Some(Lent(lent));
        let result = call(&self.mmu);
        self.mmu.borrow_mut(py).mmu = None;
        result
    }
}

impl PolicyObject for PyPolicy {
    fn fault(&mut self, reference: Reference) {
        if self.fault.is_none() && self.pending.get_mut().is_empty() {
            return;
        }
        self.attached(|py| {
            self.show_hits(py)?;
            self.fault
                .as_ref()
                .map_or(Ok(()), |fault| fault.call1(py, (PyReference::from(reference),)).map(drop))
        });
    }

    fn victim(&mut self, mmu: &mut dyn sweephand_policy::Mmu) -> Option<PageId> {
        if self.interrupt.is_raised() {
            // Not an error of its own: the interruption has its own message.
            resume_unwind(Box::new(Failed("was interrupted".to_string())));
        }
        self.attached(|py| {
            self.show_hits(py)?;
            let victim = self.with_mmu(py, mmu, |mmu| self.victim.call1(py, (mmu,)))?;
            let victim: Option<u32> = victim.extract(py).map_err(|_| {
                let found = victim.bind(py).repr().map_or_else(|_| "?".into(), |text| text.to_string());
                self.broken(&format!("victim returned {found}, which is no page"))
            })?;
            let memory = self.mmu.borrow(py);
            match victim {
                Some(page) if !memory.is_resident(page) => {
                    Err(self.broken(&format!("victim {page} is not resident")))
                }
                None if memory.residents > 0 => Err(self.broken("no victim among resident pages")),
                victim => Ok(victim.map(PageId)),
            }
        })
    }

    fn evict(&mut self, page: PageId) {
        self.attached(|py| {
            self.show_hits(py)?;
            self.mmu.borrow_mut(py).set_resident(page, false);
            self.evict.call1(py, (page.0,)).map(drop)
        });
    }

    fn insert(&mut self, reference: Reference, mmu: &mut dyn sweephand_policy::Mmu) -> bool {
        self.attached(|py| {
            self.show_hits(py)?;
            self.mmu.borrow_mut(py).set_resident(reference.page, true);
            let insert = |mmu: &Py<Mmu>| self.insert.call1(py, (PyReference::from(reference), mmu));
            let referenced = self.with_mmu(py, mmu, insert)?;
            referenced.extract::<bool>(py).map_err(|_| {
                let found = referenced.bind(py).repr().map_or_else(|_| "?".into(), |text| text.to_string());
                self.broken(&format!(
                    "insert returned {found}: return the page's reference bit, True or False"
                ))
            })
        })
    }

    fn hit(&mut self, reference: Reference) {
        let pending = self.pending.get_mut();
        pending.push(reference);
        if pending.len() >= MOST_HITS {
            self.attached(|py| self.show_hits(py));
        }
    }

    fn remove(&mut self, page: PageId) {
        self.attached(|py| {
            self.show_hits(py)?;
            self.mmu.borrow_mut(py).set_resident(page, false);
            self.remove.call1(py, (page.0,)).map(drop)
        });
    }

    fn assign(&mut self, page: PageId, object: u32, mmu: &mut dyn sweephand_policy::Mmu) {
        let Some(assign) = &self.assign else { return };
        self.attached(|py| {
            self.show_hits(py)?;
            self.with_mmu(py, mmu, |mmu| assign.call1(py, (page.0, object, mmu)).map(drop))
        });
    }

    fn renumber(&mut self, page: PageId, page_number: u64) {
        let Some(renumber) = &self.renumber else { return };
        self.attached(|py| {
            self.show_hits(py)?;
            renumber.call1(py, (page.0, page_number)).map(drop)
        });
    }

    fn free_object(&mut self, object: u32) {
        let Some(free_object) = &self.free_object else { return };
        self.attached(|py| {
            self.show_hits(py)?;
            free_object.call1(py, (object,)).map(drop)
        });
    }

    fn hand_steps(&self) -> u64 {
        self.attached(|py| {
            self.show_hits(py)?;
            let steps = attribute(self.object.bind(py), "hand_steps")?;
            let Some(steps) = steps else { return Ok(0) };
            let wrong = |_: PyErr| self.broken(&format!("hand_steps {steps}: is no count of steps"));
            steps.extract().map_err(wrong)
        })
    }

    fn cold_allocation(&self) -> Option<ColdAllocation> {
        None
    }

    fn check(&self) -> Result<(), Violation> {
        self.attached(|py| {
            self.show_hits(py)?;
            self.check.as_ref().map_or(Ok(()), |check| check.call0(py).map(drop))
        });
        Ok(())
    }
}

/// Policies by name or by class, together.
pub(crate) struct Policies {
    pub(crate) specs: Vec<Spec>,
    troubles: Vec<Trouble>,
}

impl Policies {
    /// What somebody asked for: comma lists of names, classes, and functions that make policies.
    /// What is asked for twice is there once.
    pub(crate) fn new(items: &[Bound<'_, PyAny>], interrupt: &Interrupt) -> PyResult<Self> {
        let mut policies = Self { specs: Vec::new(), troubles: Vec::new() };
        let mut own: HashMap<&str, &Bound<'_, PyAny>> = HashMap::new();
        for item in items {
            if let Ok(list) = item.cast::<PyString>() {
                for spec in Spec::parse_list(&list.to_cow()?).map_err(raise)? {
                    if !policies.specs.iter().any(|known| known.to_string() == spec.to_string()) {
                        policies.specs.push(spec);
                    }
                }
            } else {
                let plugin = PyPlugin::new(item, interrupt)?;
                let (name, trouble) = (plugin.info.name, Arc::clone(&plugin.trouble));
                match own.insert(name, item) {
                    Some(other) if other.is(item) => continue,
                    Some(_) => {
                        return Err(raise(format!(
                            "policy '{name}': two are called so; give one another name (an attribute `name`)"
                        )));
                    }
                    None => {}
                }
                policies.troubles.push(trouble);
                let spec = Spec::plugged(Arc::new(plugin), name);
                policies
                    .specs
                    .push(spec.map_err(|error| policies.trouble().unwrap_or_else(|| raise(error)))?);
            }
        }
        Ok(policies)
    }

    /// What ended the work: an interruption, or the exception that ended a policy.
    pub(crate) fn error(&self, watch: &Watch, error: PyErr) -> PyErr {
        if watch.interrupt.is_raised() { error } else { self.trouble().unwrap_or(error) }
    }

    /// The exception that ended one of them.
    pub(crate) fn trouble(&self) -> Option<PyErr> {
        self.troubles
            .iter()
            .find_map(|trouble| trouble.lock().expect("no thread panics while it holds the lock").take())
    }
}

/// Puts a policy through the conformance suite, or a quick part of it; raises what it breaks.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, policy: Bound<'_, PyAny>, thorough: bool) -> PyResult<()> {
    let policies = Policies::new(&[policy], &Interrupt::default())?;
    let extent = if thorough { Extent { operations: 300, ..Extent::WHOLE } } else { Extent::QUICK };
    for spec in &policies.specs {
        let Err(violation) = conform_to(spec, extent) else { continue };
        let error = raise(violation);
        return Err(match policies.trouble() {
            // Ctrl-C is no fault of the policy's.
            Some(trouble) if !trouble.is_instance_of::<PyException>(py) => trouble,
            Some(trouble) => {
                error.set_cause(py, Some(trouble));
                error
            }
            None => error,
        });
    }
    Ok(())
}
