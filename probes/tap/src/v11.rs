//! `ncclNet_v11_t`, recorded: with a context for each communicator.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v11 tap_version 28);
