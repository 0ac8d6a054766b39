//! `libnccl_net_tcpxtap_v8.so`: the tap for a plugin that exports version 8 and not 7.
//!
//! What a library exports is a promise, since NCCL takes the highest version it
//! finds; so there is one object per set of versions, and all of it is in
//! `tcpx_tap`.

tcpx_tap::shared_object!(v8 ncclNetPlugin_v8);
