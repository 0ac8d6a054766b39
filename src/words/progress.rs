//! How a plugin is driven: which channel is tested when, what an idle thread does, and the
//! faults that a driver can inject.
#![forbid(unsafe_code)]

use crate::units::TimeSpan;
use crate::word_set;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

word_set! {
    /// Which channel is tested when.
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub enum Policy {
        /// Each driving thread visits its channels in turn, full or not: post until the window is full, then test the oldest request until one is not done.
        Opportunistic = "opportunistic",
        /// Test a channel only while its window is full, and then only that one: the classic stall.
        WindowFullOnly = "window-full-only",
        /// One thread per channel, each opportunistic.
        DedicatedThread = "dedicated-thread",
    }
}

/// How many threads of a worker drive its channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Threads {
    /// As many as there are channels and cores for; fewer if the plugin has busy threads itself.
    Auto,
    /// This many, at most one per channel.
    #[serde(untagged)]
    Count(u32),
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Count(count) => f.pad(&count.to_string()),
        }
    }
}

word_set! {
    /// A mistake in driving a plugin, to be injected.
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub enum DriverFault {
        /// A younger request is tested before the oldest.
        YoungerTestedFirst = "younger-tested-first",
        /// One more request is posted than a comm has slots.
        SeventeenthPost = "seventeenth-post",
        /// A receive is consumed before it is unpacked.
        ConsumedEarly = "consumed-early",
        /// Receives are never consumed.
        NeverConsumed = "never-consumed",
        /// The driver stops calling test.
        NotPolling = "not-polling",
        /// The driver stops posting, and finishes what is in flight.
        NotPosting = "not-posting",
    }
}

impl DriverFault {
    /// Whether the fault needs a receiver: only receives are consumed.
    pub fn needs_receiver(self) -> bool {
        matches!(self, Self::ConsumedEarly | Self::NeverConsumed)
    }
}

/// What the driving thread does after a pass over all channels without progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Idle {
    /// Spin, then yield, then sleep for a short time.
    Adaptive,
    /// Test again at once.
    Spin,
    /// Call `sched_yield`.
    Yield,
    /// Sleep for this long.
    Sleep(TimeSpan),
}

impl FromStr for Idle {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "adaptive" => Ok(Self::Adaptive),
            "spin" => Ok(Self::Spin),
            "yield" => Ok(Self::Yield),
            _ => match text.strip_prefix("sleep:").map(str::parse) {
                Some(Ok(time)) => Ok(Self::Sleep(time)),
                Some(Err(bad)) => Err(format!("{bad}")),
                None => Err("expected adaptive, spin, yield or sleep:TIME".to_owned()),
            },
        }
    }
}

impl TryFrom<String> for Idle {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Idle> for String {
    fn from(idle: Idle) -> Self {
        idle.to_string()
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adaptive => f.pad("adaptive"),
            Self::Spin => f.pad("spin"),
            Self::Yield => f.pad("yield"),
            Self::Sleep(time) => f.pad(&format!("sleep:{time}")),
        }
    }
}
