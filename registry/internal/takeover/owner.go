package takeover

import (
	"os"
	"syscall"
)

// chownLike gives path the owner of like.
func chownLike(like, path string) error {
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return os.Lchown(path, int(st.Uid), int(st.Gid))
}
