package matrix

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

// leaveWithin bounds the attempt to leave a room that is no successor, also during a shutdown.
const leaveWithin = 10 * time.Second

// follow joins a room by invitation, or as the successor of another. An error of the homeserver's rate limit has the time to wait.
func (c *Client) follow(ctx context.Context, p store.PendingJoin) (wait time.Duration, err error) {
	if p.Replaces == "" {
		if err = c.join(ctx, p.RoomID, p.Via); err == nil {
			c.joinedUnverified.Delete(p.RoomID)
		}
	} else if err = c.joinSuccessor(ctx, p.Replaces, p.RoomID, p.Via); err == nil {
		return 0, c.emit(ctx, Replaced{p.Replaces, p.RoomID})
	}
	var failed *SendError
	if errors.As(err, &failed) && failed.Class == ClassWait {
		wait = failed.RetryAfter
	}
	return wait, err
}

// moved joins the successor of a room. Nothing was sent; the error names the room for the next attempt.
func (c *Client) moved(ctx context.Context, oldID, newID string) error {
	p, _ := c.joins.Of(newID)
	p.Via, p.Replaces = cmp.Or(p.Via, serverOf(oldID)), oldID
	err := c.joinSuccessor(ctx, oldID, newID, p.Via)
	if errors.Is(err, ErrNotSuccessor) {
		c.rooms.forgetCheck(oldID) // sync doesn't show that a tombstone was redacted
		return &SendError{Class: ClassBlock, Reason: "the room was replaced by " + newID + ", which does not name it as its predecessor: give the application another room"}
	}
	if err == nil {
		c.joins.Joined(ctx, p)
		return &SendError{
			Class: ClassReconcile, RetryAfter: time.Second, Replaced: &Replaced{oldID, newID},
			Reason: "the room was upgraded; the message goes to " + newID,
		}
	}
	c.joins.Add(ctx, p)
	if hasClass(err, ClassBlock) {
		return withReason(err, "the room was upgraded to "+newID+", which the bot may not join: invite it there")
	}
	return err
}

// joinSuccessor joins the room that a tombstone names. Anybody who may close a room can name any public room, so the bot only
// stays where the room names the old one as its predecessor (client-server API, room upgrades).
func (c *Client) joinSuccessor(ctx context.Context, oldID, newID, via string) error {
	err := c.checkPredecessor(ctx, newID, oldID)
	unknown := hasClass(err, ClassBlock, ClassDead) // neither a member nor allowed to read it
	if !unknown {
		err = c.settle(ctx, newID, err)
	}
	if err != nil && !unknown {
		return err
	}
	if unknown {
		c.joinedUnverified.Store(newID, true)
	}
	if err := c.join(ctx, newID, via); err != nil || !unknown {
		if !hasClass(err, ClassRetry, ClassAway) { // the homeserver has answered
			c.joinedUnverified.Delete(newID)
		}
		return err
	}
	return c.settle(ctx, newID, c.checkPredecessor(ctx, newID, oldID))
}

// settle leaves a room that the bot joined before it could read its predecessor, if err is ErrNotSuccessor. After any other error the
// bot stays, because its invitation is used up, and the next attempt decides. After a restart the bot stays.
func (c *Client) settle(ctx context.Context, newID string, err error) error {
	if err != nil && !errors.Is(err, ErrNotSuccessor) {
		return err
	}
	if _, entered := c.joinedUnverified.LoadAndDelete(newID); err == nil || !entered {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	if leaveErr := c.ask(ctx, request{method: http.MethodPost, path: v3("rooms", newID, "leave")}, nil); leaveErr != nil {
		c.log.Warn("the bot cannot leave a room that it joined as a successor: remove it there", zap.String("room", newID), zap.Error(leaveErr))
	}
	return err
}

func (c *Client) checkPredecessor(ctx context.Context, newID, oldID string) error {
	var create struct {
		Predecessor struct {
			RoomID string `json:"room_id"`
		} `json:"predecessor"`
	}
	if _, err := c.roomState(ctx, newID, "m.room.create", "", &create); err != nil {
		return err
	}
	if create.Predecessor.RoomID != oldID {
		return ErrNotSuccessor
	}
	return nil
}
