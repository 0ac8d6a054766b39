//! What the flight recorder shows of the endpoints of a process. They share one recorder, because they
//! share the plugin, so their names are all in its label, and no two connections or channels of the
//! process have the same number.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Numbers of a process, from 1 on, of which none is used twice.
pub(crate) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The channels of every open connection of the process: the first, and the one behind the last.
static CHANNELS: Mutex<BTreeMap<u32, u32>> = Mutex::new(BTreeMap::new());

fn channels() -> MutexGuard<'static, BTreeMap<u32, u32>> {
    CHANNELS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The channels of a connection, in each direction. They are free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Channels {
    first: u32,
}

impl Channels {
    /// The lowest `count` channels in a row that no connection has.
    pub(crate) fn take(count: u32) -> Self {
        let mut taken = channels();
        let mut first = 0;
        for (start, end) in &*taken {
            if first + count <= *start {
                break;
            }
            first = *end;
        }
        taken.insert(first, first + count);
        Self { first }
    }

    pub(crate) fn first(&self) -> u32 {
        self.first
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        channels().remove(&self.first);
    }
}

/// The role of a recorder whose process has endpoints of these names.
pub(crate) fn role(endpoints: &[String]) -> String {
    match endpoints {
        [one] => format!("endpoint {one}"),
        several => format!("endpoints {}", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_of_open_connections_do_not_overlap_and_are_used_again() {
        let firsts = |all: &[&Channels]| all.iter().map(|one| one.first()).collect::<Vec<_>>();
        let (one, two, three) = (Channels::take(4), Channels::take(2), Channels::take(4));
        assert_eq!(firsts(&[&one, &two, &three]), [0, 4, 6]);
        drop(two);
        let (again, wider) = (Channels::take(1), Channels::take(2));
        assert_eq!(firsts(&[&again, &wider]), [4, 10]);
        drop(one);
        assert_eq!(Channels::take(3).first(), 0);
    }

    #[test]
    fn a_role_names_every_endpoint() {
        let named =
            |names: &[&str]| role(&names.iter().map(|&name| name.into()).collect::<Vec<_>>());
        assert_eq!(named(&["decode"]), "endpoint decode");
        assert_eq!(named(&["prefill", "decode"]), "endpoints prefill, decode");
    }
}
