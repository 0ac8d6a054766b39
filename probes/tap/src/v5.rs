//! `ncclNet_v5_t`, recorded: tags and grouped receives.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v5 tap_version 12);
