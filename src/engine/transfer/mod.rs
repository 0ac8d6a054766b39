//! The engine: moves chunks over channels through a `&dyn Net`.
//!
//! It has no sockets, no files, and no clock except its [`Pace`] and one in `sampled`. Nothing between
//! post and consume allocates, locks, formats or logs.
//!
//! `plan` assigns bytes to the chunks of each channel, `window` decides which request may be
//! tested or consumed next, `slots` holds the memory of one channel, `filling` the slots that
//! a GPU is writing, `channel` combines one comm with its window and slots, `progress` decides
//! which channel is driven, `drivers` has the threads that each drive a share of the channels, `payload`
//! writes and verifies patterns, `sampled` tells how long that took. `rogue` breaks the plugin's rules on
//! purpose; no other module can.

mod channel;
mod drivers;
mod filling;
mod pace;
mod payload;
mod ping_pong;
mod plan;
mod progress;
mod rogue;
mod sampled;
mod slots;
mod window;

pub use channel::{Channel, ChannelError, ChannelSetup};
pub use drivers::{ChannelShare, Drivers};
pub use pace::{Pace, Wait, WallPace};
pub use payload::Pattern;
pub use ping_pong::{RoundTrips, ping_pong};
pub use plan::{Chunk, Plan, Share};
pub use progress::TransferError;
pub use rogue::Rogue;
pub use sampled::Sampled;
pub use window::{Illegal, InFlight, SLOTS_MAX, Stage, Step, Window, slots_of};
