//! The family of a plugin, for code that treats plugins differently.
//!
//! It is here rather than beside the loader, because reports, logs, rules and the doctor need
//! it for names that another program wrote.
#![forbid(unsafe_code)]

use std::path::Path;

crate::word_set! {
    /// The plugins that this program treats differently.
    pub enum PluginFamily {
        /// Google's GPUDirect-TCPX (A3-high).
        Tcpx = "tcpx",
        /// Google's GPUDirect-TCPXO (A3-mega), whose table is called FasTrak.
        Tcpxo = "tcpxo",
        /// The software plugin with TCPX's semantics.
        TcpxSoft = "tcpx-soft",
        /// The software plugin as a plain host plugin.
        PlainSoft = "plain-soft",
        /// Any other plugin.
        Other = "other",
    }
}

impl PluginFamily {
    /// The family of a table, by the name in it: `GPUDirectTCPX_v7`, `FasTrak`, `IB`.
    pub fn of_table_name(name: &str) -> Self {
        Self::named_in(name)
    }

    /// The family of a plugin by a label that begins with the table's name, followed by a
    /// version or a path: `GPUDirectTCPX_v7 3.1.9`.
    pub fn of_label(label: &str) -> Self {
        Self::of_table_name(label.split_whitespace().next().unwrap_or_default())
    }

    /// The expected family of a plugin's file before it is loaded: by the file name, or for
    /// NCCL's default name `libnccl-net.so` by the product's folder. The loaded library may
    /// differ; then [`Self::of_table_name`] decides.
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

    /// Whether the plugin has TCPX's semantics: sixteen slots, task chunks, 4 MiB per receive,
    /// UNPACK receives.
    pub fn has_tcpx_semantics(self) -> bool {
        matches!(self, Self::Tcpx | Self::TcpxSoft)
    }

    /// Whether this is a flavour of the software plugin, which accepts host memory in place of
    /// GPU memory.
    pub fn is_software(self) -> bool {
        matches!(self, Self::TcpxSoft | Self::PlainSoft)
    }

    /// Tries the longer names first, because they contain `tcpx`.
    fn named_in(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        let has = |word: &str| text.contains(word);
        match () {
            () if has("tcpxsoft") => Self::TcpxSoft,
            () if has("plainsoft") => Self::PlainSoft,
            // The tap shows the name of the plugin behind it, and its own only without one.
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
    fn the_name_of_a_table_gives_its_family() {
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
    fn only_the_first_word_of_a_label_counts() {
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
    fn a_path_gives_the_expected_family_by_file_name_or_folder() {
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
