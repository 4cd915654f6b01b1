package filesystem

import "testing"

// Some file systems don't store when a directory was made, and give its inode to the next.
func TestDirectoryWithoutBirthIsNotRemembered(t *testing.T) {
	d := dirFlusher{durable: map[string]dirID{}}
	d.remember(map[string]dirID{"/old": {ino: 7}, "/new": {ino: 8, sec: 9}})
	if _, ok := d.durable["/old"]; ok || len(d.durable) != 1 {
		t.Errorf("remembered %v", d.durable)
	}
}
