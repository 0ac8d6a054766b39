//! The versions of the ncclNet table that this program can drive.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! abi_version {
    ($(($v:ident $variant:ident $number:literal $symbol:ident))+) => {
        /// A supported version, written `v7` in files and on the command line. Newer versions
        /// compare greater.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum AbiVersion {
            $(
                #[doc = concat!("`", stringify!($symbol), "`")]
                $variant = $number,
            )+
        }

        impl AbiVersion {
            /// Every version, newest first.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// All versions in words, such as "v4 to v12".
            pub const RANGE: &str = tcpx_abi::VERSIONS_RANGE;
            /// The newest version.
            pub const NEWEST: Self = Self::ALL[0];
            /// The oldest version.
            pub const OLDEST: Self = Self::ALL[Self::ALL.len() - 1];

            /// The version as it is written: `v7`.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => stringify!($v),)+ }
            }

            /// The symbol that exports a table of this version.
            pub const fn symbol(self) -> &'static str {
                match self { $(Self::$variant => stringify!($symbol),)+ }
            }
        }
    };
}
tcpx_abi::with_versions!(abi_version);

impl AbiVersion {
    /// The number of the version: 7 for `v7`.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The version of the table that `symbol` exports; `None` if it is not supported.
    pub fn of_symbol(symbol: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|version| version.symbol() == symbol)
    }
}

impl fmt::Display for AbiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Text that is not a supported version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {}", AbiVersion::RANGE)]
pub struct UnknownVersion;

impl FromStr for AbiVersion {
    type Err = UnknownVersion;

    /// Parses `v7` or `7`.
    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let number = text
            .strip_prefix('v')
            .unwrap_or(text)
            .parse::<u32>()
            .map_err(|_| UnknownVersion)?;
        Self::ALL
            .iter()
            .copied()
            .find(|version| version.number() == number)
            .ok_or(UnknownVersion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_same_in_text_json_and_symbols() {
        for version in AbiVersion::ALL {
            assert_eq!(version.word().parse(), Ok(*version));
            assert_eq!(version.number().to_string().parse(), Ok(*version));
            assert_eq!(serde_json::to_value(version).unwrap(), version.word());
            assert_eq!(AbiVersion::of_symbol(version.symbol()), Some(*version));
        }
        assert!(AbiVersion::V12 > AbiVersion::V9);
    }

    #[test]
    fn the_error_for_an_unknown_version_names_the_supported_ones() {
        for text in ["", "v", "v3", "v99", "vv7", "7.0", "-7", "garbage"] {
            assert_eq!(text.parse::<AbiVersion>(), Err(UnknownVersion), "{text}");
        }
        assert_eq!(
            UnknownVersion.to_string(),
            format!("expected {}", AbiVersion::RANGE)
        );
    }
}
