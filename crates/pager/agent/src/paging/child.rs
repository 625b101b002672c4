//! In a child: its agent goes on with the copied state of its parent's.

use crate::kernel::{Event, Userfaultfd};
use crate::paging::changes::{catch_up, drop_contents};
use crate::paging::during_fork::{adopt, make_up, moves};
use crate::paging::handover;
use crate::paging::pager::{Pager, open_store};
use crate::process::failure::abort;
use crate::process::pagemap::Pagemap;
use crate::process::roots;
use crate::store::io::Io;
use alloc::vec::Vec;
use core::mem::{forget, replace, take};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

/// Goes on with the copied state, and with descriptors of this process.
pub(crate) fn take_over(pager: &mut Pager, socket: OwnedFd) {
    let lost = |_| -> ! { abort(format_args!("a child has lost its parent's pager before it had its own")) };
    // The parent sent this before it forked.
    pager.mode.receive(pager, &socket).unwrap_or_else(|error| lost(error));
    send(&socket, &[1], SendFlags::NOSIGNAL).unwrap_or_else(|error| lost(error));
    let (handover, descriptors) = handover::receive(&socket).unwrap_or_else(|error| lost(error));
    let mut descriptors = descriptors.into_iter();
    let mut next = || descriptors.next().unwrap_or_else(|| lost(Errno::BADF));
    roots::keep(next(), next());
    // The copied state contains descriptor numbers of the parent's table. They must not be closed
    // here.
    let program = &mut pager.program;
    forget(replace(&mut program.uffd, Userfaultfd::from(next())));
    forget(replace(&mut program.staging_uffd, Userfaultfd::from(next())));
    forget(replace(&mut program.pagemap, Pagemap::open()));
    pager.account.reopen();
    let order = &pager.control.order;
    let io = Io::new(order.use_ring != 0, order.read_delay_ns);
    forget(replace(&mut pager.disk.io, io));
    forget(program.forking.take());
    program.orphans.drain(..).for_each(forget);
    forget(take(&mut program.sharers));
    let store = &mut pager.disk.store;
    let numbers: Vec<usize> = store.files().map(|(number, _)| number).collect();
    for number in numbers {
        forget(store.replace_descriptor(number, next()));
    }
    forget(replace(&mut program.supervisor, (handover.has_supervisor != 0).then(&mut next)));
    let accessed_bits = (handover.has_accessed_bits != 0).then(next);
    pager.anon.begin_in_child(pager.control, program, accessed_bits);
    // The parent goes on writing to its file. The child makes its own, empty one.
    let number = store.current();
    drop(store.replace_descriptor(number, open_store(pager.control, pager.mode)));
    program.drop_bells();
    program.register_own(&pager.disk.staging);
    pager.mode.in_child(pager);
    if moves(&pager.program.deferred) != handover.moves {
        abort(format_args!(
            "a mapping was moved while another thread forked, by a system call of the program's own: where the \
             child's memory is cannot be known"
        ));
    }
    // Changes that the parent had read but not applied happened to this process's memory too. The
    // faults are the parent's.
    pager.program.messages.retain(|message| !matches!(message.event(), Some(Event::Fault { .. }) | None));
    catch_up(pager);
    make_up(pager, false);
    for (start, end) in pager.memory.not_inherited.iter().collect::<Vec<_>>() {
        drop_contents(pager, start, end);
        pager.memory.forget_guards(start, end);
        pager.memory.regions.remove(start, end);
    }
    for &address in &handover.addresses[..handover.answered as usize] {
        adopt(pager, address, false, &[]);
    }
}
