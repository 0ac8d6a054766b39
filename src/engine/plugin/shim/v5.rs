//! `ncclNet_v5_t`: tags, grouped receives, and "call again".
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v5 version_calls 5);
