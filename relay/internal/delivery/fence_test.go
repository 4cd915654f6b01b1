package delivery

import "testing"

func TestFinishIn_AnotherRelayMayDeliver_IsAtOnce(t *testing.T) {
	for want, valid := range map[bool]func() bool{true: func() bool { return false }, false: func() bool { return true }} {
		d := &Delivery{o: Options{Valid: valid}}
		if got := d.finishIn(); (got == 0) != want {
			t.Errorf("what is in flight has %v", got)
		}
	}
	if (&Delivery{}).finishIn() != finishWithin {
		t.Error("a relay that is alone does not finish")
	}
}
