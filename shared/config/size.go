package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes, written plain or with a unit: 4MiB, 500kB, 1GB.
type Size int64

type unit struct {
	name  string
	bytes int64
}

// units, the longer names first so that "MiB" is not read as "B".
func units() []unit {
	return []unit{
		{"KiB", 1 << 10},
		{"MiB", 1 << 20},
		{"GiB", 1 << 30},
		{"TiB", 1 << 40},
		{"kB", 1e3},
		{"KB", 1e3},
		{"MB", 1e6},
		{"GB", 1e9},
		{"TB", 1e12},
		{"B", 1},
	}
}

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	number, factor := strings.TrimSpace(string(text)), int64(1)
	for _, u := range units() {
		if rest, found := strings.CutSuffix(number, u.name); found {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<63-1)/factor {
		return fmt.Errorf("%q is not a size such as 4MiB", text)
	}
	*s = Size(n * factor)
	return nil
}

// MarshalText writes a size with the largest binary unit that divides it.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String writes a size with the largest binary unit that divides it.
func (s Size) String() string {
	n, unit := int64(s), ""
	for _, u := range units()[:4] {
		if int64(s) != 0 && int64(s)%u.bytes == 0 {
			n, unit = int64(s)/u.bytes, u.name
		}
	}
	return strconv.FormatInt(n, 10) + unit
}
