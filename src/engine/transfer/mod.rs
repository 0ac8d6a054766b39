//! The engine: moves chunks over channels through a `&dyn Net`.
//!
//! No sockets, no files, and no clock but the [`Pace`] it is given. Nothing on
//! the way from post to consumed allocates, locks, formats or logs.
//!
//! `plan` says which bytes each chunk of each channel carries, `window` which
//! request may be tested or consumed next, `slots` holds the memory of one
//! channel, `filling` those of its slots that a GPU writes now, `channel` ties one
//! comm to its window and slots, `progress` decides whose turn it is, `payload`
//! what the bytes must be. `rogue` misbehaves on purpose; nothing else can.

mod channel;
mod filling;
mod pace;
mod payload;
mod ping_pong;
mod plan;
mod progress;
mod rogue;
mod slots;
mod window;

pub use channel::{Channel, ChannelError, ChannelSetup};
pub use pace::{Pace, WallPace};
pub use payload::Pattern;
pub use ping_pong::{RoundTrips, ping_pong};
pub use plan::{Chunk, Plan, Share};
pub use progress::{TransferError, run_iteration};
pub use rogue::Rogue;
pub use window::{Illegal, InFlight, SLOTS_MAX, Stage, Step, Window};
