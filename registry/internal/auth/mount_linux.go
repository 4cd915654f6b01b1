package auth

import "golang.org/x/sys/unix"

// isMount reports whether a file system is mounted at path, which then can't be replaced.
func isMount(path string) bool {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &s)
	return err == nil && s.Attributes_mask&s.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
