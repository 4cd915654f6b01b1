package filesystem

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

// bigFile is the size from which on a file is flushed before it joins a round:
// the others shall not wait for it.
const bigFile = 1 << 20

type action int

const (
	put action = iota
	removeAll
	removeObject // and nothing but an object, which has to be there
)

// change is a driver.Change on its way. check, write, flush, publish and
// cleanUp follow each other.
type change struct {
	path    string // below the root
	name    string // absolute
	do      action
	content []byte
	upload  driver.Upload // or nil
	like    string        // absolute: a durable file with the same content, or ""
	twin    *change       // before it in its stage, with the same content, or nil

	temp string // put: the file to be renamed to name; removeAll: where the tree went
	fd   int    // of temp while it needs a flush, or -1
}

func newChange(c *driver.Change) change {
	ch := change{path: c.Path, content: c.Content, upload: c.Upload, like: c.Like, fd: -1}
	if c.Remove {
		ch.do = removeAll
	}
	return ch
}

// pair finds the changes of a stage that are like one before them.
func pair(stage []change) {
	for i := range stage {
		c := &stage[i]
		if c.like == "" {
			continue
		}
		for j := range i {
			if before := &stage[j]; before.path == c.like && before.do == put && before.twin == nil && before.upload == nil && bytes.Equal(before.content, c.content) {
				c.twin = before
			}
		}
	}
}

func (c *change) check(d *Driver) (err error) {
	if c.name, err = d.abs("write", c.path); err != nil {
		return err
	}
	if c.upload == nil {
		return nil
	}
	if u, ok := c.upload.(*upload); !ok || u.d != d {
		return errors.New("filesystem: cannot commit an upload of another driver")
	}
	return nil
}

// write puts the bytes into a file. A big file is flushed here.
func (c *change) write(d *Driver) error {
	if c.do != put {
		return nil
	}
	if c.twin != nil {
		c.like = c.twin.name // flushed before either of them is published
		return nil
	}
	if c.like = d.sharable(c.like, c.content); c.like != "" && c.upload == nil {
		return nil
	}
	size, err := int64(len(c.content)), error(nil)
	if u, ok := c.upload.(*upload); ok {
		if c.fd, size, err = u.seal(); err != nil {
			return err
		}
		c.temp = u.name
	} else if c.temp, c.fd, err = d.writeTemp(c.content); err != nil {
		return d.writeFault("write", c.path, err)
	}
	if size >= bigFile {
		return c.flushed(d, d.big.flush(c.fd))
	}
	return nil
}

// flush makes the bytes durable.
func (c *change) flush(d *Driver) error {
	if c.fd < 0 {
		return nil
	}
	return c.flushed(d, syncFile(c.fd))
}

// flushed takes the result of a flush of its file.
func (c *change) flushed(d *Driver, err error) error {
	if err != nil {
		return c.drop(d, err)
	}
	c.closeFile()
	return nil
}

// drop deletes a file that could not be flushed: its bytes are in doubt for
// ever, whatever the next flush says.
func (c *change) drop(d *Driver, err error) error {
	drop(c.temp)
	c.temp = ""
	return d.writeFault("flush", c.path, err)
}

// closeFile forgets the file; that of an upload is closed with it.
func (c *change) closeFile() {
	if c.fd >= 0 && c.upload == nil {
		closeFD(c.fd)
	}
	c.fd = -1
}

// publish makes the change visible. It returns the directories that have to be
// flushed for it.
func (c *change) publish(d *Driver) (dirs []string, err error) {
	switch c.do {
	case put:
		if err = c.put(d); err != nil {
			return nil, d.writeFault("write", c.path, err)
		}
		return d.durable.unflushed(c.name), nil
	case removeObject:
		if err = unlink(c.name); isNotExist(err) || errors.Is(err, unix.EISDIR) {
			return nil, d.readFault("remove", c.path, unix.ENOENT)
		}
	case removeAll:
		err = c.takeAway(d)
	}
	if err != nil {
		return nil, d.writeFault("remove", c.path, err)
	}
	return []string{dirOf(c.name)}, nil
}

// put renames the file into place, or links to the one with the same content.
// Most directories are new, so one that is not known is made first.
func (c *change) put(d *Driver) error {
	if dir := dirOf(c.name); !d.durable.has(dir) {
		if err := d.mkdirAll(dir); err != nil && err != unix.ENOENT { //nolint:errorlint // a bare errno; inDir insists
			return err
		}
	}
	if c.like != "" {
		if d.share(c.like, c.name, len(c.content)) {
			return nil
		}
		c.like, c.twin = "", nil
		if err := c.write(d); err != nil {
			return err
		}
		if err := c.flush(d); err != nil {
			return err
		}
	}
	err := d.inDir(c.name, func() error { return rename(c.temp, c.name) })
	if errors.Is(err, unix.EXDEV) && c.upload == nil {
		return d.inDir(c.name, func() error { return d.writeBeside(c.name, c.content) })
	}
	if err == nil && c.upload != nil {
		d.spares.created(c.temp, -1)
	}
	if err == nil {
		c.temp = ""
	}
	return err
}

// takeAway removes an object, or renames a tree into the staging directory, so
// that it stops existing whole.
func (c *change) takeAway(d *Driver) error {
	d.removing.RLock()
	defer d.removing.RUnlock()
	err := unlink(c.name)
	if errors.Is(err, unix.EISDIR) {
		d.durable.forgetTree(c.name)
		c.temp, err = d.stage(c.name)
		if errors.Is(err, unix.EXDEV) {
			return d.discard(c.name)
		}
	}
	if isNotExist(err) && !d.vanished() {
		return nil
	}
	return err
}

// stage renames a tree into the staging directory. Where there is none and none
// can be made, or it has no room for another name, the root has.
func (d *Driver) stage(tree string) (temp string, err error) {
	temp = d.tempName()
	err = rename(tree, temp)
	var st unix.Stat_t
	if isFull(err) || errors.Is(err, unix.ENOENT) && stat(tree, &st) == nil && !d.vanished() {
		temp = d.staging + "-" + d.tempBase() + ".tmp"
		err = rename(tree, temp)
	}
	if err != nil {
		return "", err
	}
	return temp, nil
}

// cleanUp closes what is open and deletes what is left: a file that was not
// published, a tree that was taken away. The bytes of an upload stay.
func (c *change) cleanUp() {
	c.closeFile()
	if u, ok := c.upload.(*upload); ok {
		u.release()
		return
	}
	if c.upload == nil && c.temp != "" {
		drop(c.temp)
	}
}
