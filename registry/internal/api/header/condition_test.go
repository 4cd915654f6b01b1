package header

import (
	"net/http"
	"testing"
)

func TestCondition(t *testing.T) {
	const tag = `"sha256:ab"`
	type h = http.Header
	for _, c := range []struct {
		header h
		want   int
	}{
		{h{}, 0},
		{h{"If-None-Match": {`"sha256:ab"`}}, 304},
		{h{"If-None-Match": {`sha256:ab`}}, 304},
		{h{"If-None-Match": {`W/"sha256:ab"`}}, 304},
		{h{"If-None-Match": {`*`}}, 304},
		{h{"If-None-Match": {`"x" , W/"y","sha256:ab"`}}, 304},
		{h{"If-None-Match": {`"x"`, `"sha256:ab"`}}, 304},
		{h{"If-None-Match": {`"x,"sha256:ab"`}}, 0},
		{h{"If-None-Match": {`"a,sha256:ab,b"`}}, 0},
		{h{"If-None-Match": {`"sha256:abc"`}}, 0},
		{h{"If-None-Match": {``}}, 0},
		{h{"If-Match": {`"sha256:ab"`}}, 0},
		{h{"If-Match": {`*`}}, 0},
		{h{"If-Match": {`W/"sha256:ab"`}}, 412},
		{h{"If-Match": {`"x"`}}, 412},
		{h{"If-Match": {`"x"`}, "If-None-Match": {"*"}}, 412},
	} {
		if got := Condition(c.header, tag); got != c.want {
			t.Errorf("%v: %d, want %d", c.header, got, c.want)
		}
	}
	for value, want := range map[string]bool{
		tag:                             true,
		`W/"sha256:ab"`:                 false,
		`"x"`:                           false,
		"Wed, 21 Oct 2015 07:28:00 GMT": false,
	} {
		if got := RangeApplies(h{"If-Range": {value}}, tag); got != want {
			t.Errorf("If-Range %s: %v, want %v", value, got, want)
		}
	}
	if !RangeApplies(h{}, tag) {
		t.Error("a range without If-Range does not apply")
	}
}
