package memory

import (
	"context"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"

	"slipway/registry/internal/storage"
)

// List implements storage.Store. It lists what was there when it began.
func (m *Memory) List(_ context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		if err := valid(prefix); err != nil {
			yield(storage.Info{}, err)
			return
		}
		if info, err := m.statPrefix(prefix); err == nil && o.Version != nil {
			*o.Version = info.Version
		}
		for _, info := range m.list(prefix+"/", o) {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (m *Memory) list(prefix string, o storage.ListOptions) (infos []storage.Info) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for i := m.search(max(prefix, o.After)); i < len(m.keys) && strings.HasPrefix(m.keys[i], prefix); {
		info := m.objects[m.keys[i]].info(m.keys[i])
		if name, _, deeper := strings.Cut(info.Key[len(prefix):], "/"); deeper && !o.Flat {
			info = storage.Info{Key: prefix + name + "/", Prefix: true}
			i = m.search(prefix + name + "0") // '0' follows '/'
		} else {
			i++
		}
		if info.Key > o.After {
			infos = append(infos, info)
		}
	}
	return infos
}

// search returns the index of the first key that is not less than key.
func (m *Memory) search(key string) int {
	i, _ := slices.BinarySearch(m.keys, key)
	return i
}

func (m *Memory) statPrefix(prefix string) (storage.Info, error) {
	if err := valid(prefix); err != nil {
		return storage.Info{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	n := m.names[prefix]
	if n == 0 {
		return storage.Info{}, notExist(prefix + "/")
	}
	return storage.Info{Key: prefix + "/", Prefix: true, Version: strconv.FormatUint(n, 10)}, nil
}

// changeNames gives each prefix whose names differ once key has come or gone a new
// version. It is called before key comes and after it has gone.
func (m *Memory) changeNames(key string, comes bool) {
	for dir := path.Dir(key); dir != "/"; dir = path.Dir(dir) {
		m.count++
		m.names[dir] = m.count
		if m.below(dir) {
			return // its own name stands above already, or still
		}
		if !comes {
			delete(m.names, dir)
		}
	}
}

// below reports whether there is a key below prefix.
func (m *Memory) below(prefix string) bool {
	i := m.search(prefix + "/")
	return i < len(m.keys) && strings.HasPrefix(m.keys[i], prefix+"/")
}
