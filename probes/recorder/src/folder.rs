//! The per-user folder of recorder files. It is held open, so that every access goes to the
//! folder that was checked and not to another one of the same name.
//!
//! `/dev/shm` is writable by everyone, so another user may have created the folder as a trap.
//! It must be a directory, not a link, owned by this user and inaccessible to others.
#![expect(unsafe_code, reason = "mkdirat, openat and unlinkat")]

use std::ffi::{CStr, CString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The default place of recorder files: in memory, and empty after a reboot.
pub const SHARED_MEMORY: &str = "/dev/shm";

/// The name of this user's folder below a parent such as [`SHARED_MEMORY`].
pub fn folder_name() -> String {
    format!("tcpxctl-{}", own_uid())
}

#[derive(Debug)]
pub(crate) struct Folder {
    handle: File,
    path: PathBuf,
}

impl Folder {
    /// Opens this user's folder below `parent`, creating it if necessary.
    pub(crate) fn make(parent: &Path) -> io::Result<Self> {
        let path = parent.join(folder_name());
        let name = c_string(path.as_os_str().as_bytes())?;
        // SAFETY: the string is ours and ends in a zero.
        let code = unsafe { libc::mkdir(name.as_ptr(), 0o700) };
        if code != 0 && io::Error::last_os_error().kind() != io::ErrorKind::AlreadyExists {
            return Err(io::Error::last_os_error());
        }
        Self::open(path)
    }

    /// Opens this user's folder below `parent`, if it exists and is safe.
    pub(crate) fn find(parent: &Path) -> io::Result<Self> {
        Self::open(parent.join(folder_name()))
    }

    fn open(path: PathBuf) -> io::Result<Self> {
        let handle = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&path)?;
        let meta = handle.metadata()?;
        if meta.uid() != own_uid() {
            return Err(io::Error::other(format!(
                "it belongs to user {}",
                meta.uid()
            )));
        }
        if meta.mode() & 0o077 != 0 {
            return Err(io::Error::other(format!(
                "other users can access it (mode {:o})",
                meta.mode() & 0o7777
            )));
        }
        Ok(Self { handle, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a file. It is an error if the name exists, even as a link.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        self.open_at(name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)
    }

    /// Opens an existing file for reading, without blocking if it is a pipe.
    pub(crate) fn read(&self, name: &CStr) -> io::Result<File> {
        self.open_c(name, libc::O_RDONLY | libc::O_NONBLOCK)
    }

    pub(crate) fn remove(&self, name: &CStr) -> io::Result<()> {
        // SAFETY: the descriptor is open and the string ends in a zero.
        match unsafe { libc::unlinkat(self.handle.as_raw_fd(), name.as_ptr(), 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn open_at(&self, name: &str, flags: i32) -> io::Result<File> {
        self.open_c(&c_string(name.as_bytes())?, flags)
    }

    fn open_c(&self, name: &CStr, flags: i32) -> io::Result<File> {
        let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: the descriptor is open and the string ends in a zero; 0600 is the mode.
        let fd = unsafe { libc::openat(self.handle.as_raw_fd(), name.as_ptr(), flags, 0o600) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(unsafe { File::from_raw_fd(fd) })
    }
}

pub(crate) fn own_uid() -> u32 {
    // SAFETY: always succeeds, touches no memory.
    unsafe { libc::geteuid() }
}

pub(crate) fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_folder_is_created_private_and_found_again() {
        let parent = tempfile::tempdir().unwrap();
        assert!(Folder::find(parent.path()).is_err());
        let made = Folder::make(parent.path()).unwrap();
        assert_eq!(fs::metadata(made.path()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(
            Folder::make(parent.path()).unwrap().path(),
            Folder::find(parent.path()).unwrap().path()
        );
    }

    #[test]
    fn a_folder_that_others_can_access_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let made = Folder::make(parent.path()).unwrap();
        fs::set_permissions(made.path(), Permissions::from_mode(0o770)).unwrap();
        assert!(
            Folder::make(parent.path())
                .unwrap_err()
                .to_string()
                .contains("770")
        );
    }

    #[test]
    fn a_link_is_refused_as_folder_and_as_file() {
        let parent = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), parent.path().join(folder_name())).unwrap();
        assert!(Folder::make(parent.path()).is_err());

        let folder = Folder::make(elsewhere.path()).unwrap();
        symlink("/dev/null", folder.path().join("a")).unwrap();
        assert_eq!(
            folder.create("a").unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert!(folder.read(c"a").is_err());
    }

    #[test]
    fn a_file_is_new_and_private() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::make(parent.path()).unwrap();
        let file = folder.create("a").unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            folder.create("a").unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        folder.remove(c"a").unwrap();
        folder.create("a").unwrap();
    }
}
