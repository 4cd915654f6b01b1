package bytesize

import (
	"math"
	"testing"
)

func TestText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1.0 KiB", -1023: "-1023 B", -1536: "-1.5 KiB", 3 << 19: "1.5 MiB", 5 << 30: "5.0 GiB", math.MaxInt64: "8.0 EiB",
	} {
		if got := Text(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
