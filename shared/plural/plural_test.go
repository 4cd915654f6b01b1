package plural

import "testing"

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		n    int
		noun string
		want string
	}{
		{0, "tag", "0 tags"},
		{1, "tag", "1 tag"},
		{2, "tag", "2 tags"},
		{1, "repository", "1 repository"},
		{0, "repository", "0 repositories"},
		{12, "key", "12 keys"},
	} {
		if got := Of(tt.n, tt.noun); got != tt.want {
			t.Errorf("%d %s: got %q, want %q", tt.n, tt.noun, got, tt.want)
		}
	}
}
