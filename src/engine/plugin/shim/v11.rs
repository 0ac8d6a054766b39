//! `ncclNet_v11_t`: a context per communicator, which `finalize` ends.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v11 version_calls 11);
