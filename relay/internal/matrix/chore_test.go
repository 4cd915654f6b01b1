package matrix

import (
	"fmt"
	"testing"
)

// Strangers who fill all places with invitations keep nobody else from inviting.
func TestStrangersFillNoPlaces(t *testing.T) {
	c, err := New(Options{Homeserver: "http://127.0.0.1:1", AccessToken: "t"})
	if err != nil {
		t.Fatal(err)
	}
	c.Attach(newFakeRules("@friend:hs"))
	for i := range maxChores {
		room := fmt.Sprintf("!%d:hs", i)
		c.addChore(room, chore{Inviter: "@stranger:hs"})
		c.doChore(t.Context(), room, chore{Inviter: "@stranger:hs"})
	}
	c.addChore("!friends:hs", chore{Inviter: "@friend:hs"})
	if !c.invited("!friends:hs") || len(c.chores.open) != maxChores {
		t.Errorf("the friend's invitation is known: %v, of %d", c.invited("!friends:hs"), len(c.chores.open))
	}
	for i := range maxChores {
		c.addChore(fmt.Sprintf("!upgraded%d:hs", i), chore{Replaces: "!old:hs"})
	}
	if !c.invited("!friends:hs") || len(c.chores.open) != maxChores {
		t.Errorf("with upgraded rooms the friend's invitation is known: %v, of %d", c.invited("!friends:hs"), len(c.chores.open))
	}
}

// A friend who invites while a stranger's invitation to the same room is looked at
// does not wait as the stranger does.
func TestFriendInvitesAfterAStranger(t *testing.T) {
	c, err := New(Options{Homeserver: "http://127.0.0.1:1", AccessToken: "t"})
	if err != nil {
		t.Fatal(err)
	}
	c.Attach(newFakeRules("@friend:hs"))
	c.addChore("!a:hs", chore{Inviter: "@stranger:hs"})
	looked := c.dueChores()["!a:hs"]
	c.addChore("!a:hs", chore{Inviter: "@friend:hs"})
	c.doChore(t.Context(), "!a:hs", looked)
	if due, ok := c.dueChores()["!a:hs"]; !ok || due.stranger {
		t.Errorf("the friend's invitation is due: %v, %+v", ok, due)
	}
}
