//! The recording interposer.
