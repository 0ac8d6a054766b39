//! Whose plugin it is, as far as callers must treat plugins differently.
//!
//! Here and not beside the code that loads plugins, because reports, logs, rules and
//! the doctor ask as well, of a name that somebody else's program wrote down.
#![forbid(unsafe_code)]

use std::path::Path;

crate::word_set! {
    /// The plugins that are told apart.
    pub enum PluginFamily {
        /// Google's GPUDirect-TCPX (A3-high).
        Tcpx = "tcpx",
        /// Google's GPUDirect-TCPXO (A3-mega), which calls itself FasTrak.
        Tcpxo = "tcpxo",
        /// The software plugin with TCPX's semantics.
        TcpxSoft = "tcpx-soft",
        /// The software plugin as a plain host plugin.
        PlainSoft = "plain-soft",
        /// Any other.
        Other = "other",
    }
}

impl PluginFamily {
    /// The family of a table, by the name in it: `GPUDirectTCPX_v7`, `FasTrak`, `IB`.
    pub fn of_table_name(name: &str) -> Self {
        Self::named_in(name)
    }

    /// The family of a plugin whose table's name stands first in `label`, with a
    /// version or a path behind it: `GPUDirectTCPX_v7 3.1.9`.
    pub fn of_label(label: &str) -> Self {
        Self::of_table_name(label.split_whitespace().next().unwrap_or_default())
    }

    /// What a plugin's file promises before it is loaded, by its name or, where that
    /// is NCCL's own `libnccl-net.so`, by the product's folder. A library may turn out
    /// to be another; [`Self::of_table_name`] decides once there is a table.
    pub fn expected_of_path(path: &Path) -> Self {
        let text = |part: Option<&std::ffi::OsStr>| {
            part.unwrap_or_default().to_string_lossy().into_owned()
        };
        match text(path.file_name()).as_str() {
            "libnccl-net.so" => {
                // PRODUCT/lib64/libnccl-net.so
                match text(path.ancestors().nth(2).and_then(Path::file_name)).as_str() {
                    "tcpx" => Self::Tcpx,
                    "tcpxo" | "fastrak" => Self::Tcpxo,
                    _ => Self::Other,
                }
            }
            name => Self::named_in(name),
        }
    }

    /// TCPX's semantics: sixteen slots, task chunks, 4 MiB per receive, UNPACK receives.
    pub fn has_tcpx_semantics(self) -> bool {
        matches!(self, Self::Tcpx | Self::TcpxSoft)
    }

    /// Either flavour of the software plugin, which ordinary memory may be given as a
    /// stand-in for a GPU's.
    pub fn is_software(self) -> bool {
        matches!(self, Self::TcpxSoft | Self::PlainSoft)
    }

    /// The longer names first, as `tcpx` is a part of them.
    fn named_in(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        let has = |word: &str| text.contains(word);
        match () {
            () if has("tcpxsoft") => Self::TcpxSoft,
            () if has("plainsoft") => Self::PlainSoft,
            // The tap is whatever plugin lies behind it; only without one it has this name.
            () if has("tcpxtap") => Self::Other,
            () if has("tcpxo") || has("fastrak") => Self::Tcpxo,
            () if has("tcpx") => Self::Tcpx,
            () => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PluginFamily::{self, *};
    use std::path::Path;

    #[test]
    fn a_table_is_told_by_its_name() {
        for (name, expected) in [
            ("GPUDirectTCPX_v7", Tcpx),
            ("GPUDirectTCPX", Tcpx),
            ("gpudirecttcpx_v8", Tcpx),
            ("FasTrak", Tcpxo),
            ("FasTrak_v8", Tcpxo),
            ("GPUDirectTCPXO_v7", Tcpxo),
            ("TCPXSoft_v7", TcpxSoft),
            ("PlainSoft", PlainSoft),
            ("tcpxtap-without-plugin", Other),
            ("Strict_v7", Other),
            ("AWS Libfabric", Other),
            ("Libfabric", Other),
            ("FastSocket", Other),
            ("gIB", Other),
            ("IB", Other),
            ("IBext_v8", Other),
            ("Socket", Other),
            ("UCX", Other),
            ("", Other),
        ] {
            assert_eq!(PluginFamily::of_table_name(name), expected, "{name}");
        }
    }

    #[test]
    fn what_follows_a_name_in_a_label_says_nothing() {
        for (label, expected) in [
            ("GPUDirectTCPX_v7 3.1.9", Tcpx),
            (
                "GPUDirectTCPX_v7 /usr/local/lib/libnccl-net-fastrak.so",
                Tcpx,
            ),
            (
                "Strict_v8 Strict_v7 /home/tcpx/libnccl-net-strict.so",
                Other,
            ),
            ("PlainSoft v12 0.1.0", PlainSoft),
            ("", Other),
        ] {
            assert_eq!(PluginFamily::of_label(label), expected, "{label}");
        }
    }

    #[test]
    fn a_file_promises_a_family_by_its_name_or_its_products_folder() {
        for (path, expected) in [
            ("/usr/local/tcpx/lib64/libnccl-net-tcpx.so", Tcpx),
            ("/usr/local/tcpx/lib64/libnccl-net.so", Tcpx),
            ("/var/lib/tcpx/lib64/libnccl-net.so", Tcpx),
            ("./libnccl-net-tcpx.so", Tcpx),
            ("libnccl-net-tcpx.so.0", Tcpx),
            ("/usr/local/fastrak/lib64/libnccl-net.so", Tcpxo),
            ("/var/lib/tcpxo/lib64/libnccl-net.so", Tcpxo),
            ("/x/libnccl-net-tcpxo.so", Tcpxo),
            ("/x/libnccl-net-fastrak.so", Tcpxo),
            ("/x/libnccl_net_tcpxsoft.so", TcpxSoft),
            ("/x/libnccl_net_plainsoft.so", PlainSoft),
            ("/x/libnccl_net_tcpxtap.so", Other),
            ("/src/tcpxctl/target/libnccl-net-strict.so", Other),
            ("/usr/local/tcpx/lib64/libnccl-net-aws.so", Other),
            ("/usr/lib/libnccl-net.so", Other),
            ("libnccl-net.so", Other),
            ("", Other),
        ] {
            assert_eq!(
                PluginFamily::expected_of_path(Path::new(path)),
                expected,
                "{path}"
            );
        }
    }

    #[test]
    fn a_family_is_a_word_in_json() {
        let words = PluginFamily::ALL
            .iter()
            .map(|family| serde_json::to_value(family).unwrap());
        assert!(words.eq(["tcpx", "tcpxo", "tcpx-soft", "plain-soft", "other"]));
    }
}
