//go:build goolm

package encryption

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"go.uber.org/zap"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/crypto"
	"maunium.net/go/mautrix/crypto/ssss"
	"maunium.net/go/mautrix/id"

	"slipway/relay/internal/store"
)

// Secrets of an identity that the relay created or recovered.
const (
	secretSeeds    id.Secret = "identity"
	secretRecovery id.Secret = "recovery_key"
)

// Status returns the view of the bot's device that other clients have.
func (d *Device) Status() Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.identity
}

// RecoveryKey returns the stored recovery key of the bot's identity, or "".
func RecoveryKey(ctx context.Context, db *store.Keys, device string, pickleKey []byte) (string, error) {
	keys, err := load(ctx, db, device, pickleKey)
	if err != nil {
		return "", err
	}
	return keys.GetSecret(ctx, secretRecovery)
}

// assureIdentity creates or recovers the bot's identity and signs the device. Failures are kept for Status; messages are sent
// anyway.
func (d *Device) assureIdentity(ctx context.Context) {
	verified, err := d.signDevice(ctx)
	now := Identity{Device: d.store.device, Fingerprint: d.mach.Fingerprint(), Verified: verified && err == nil}
	var known *problem
	switch {
	case errors.As(err, &known):
		now.Problem = known.text
	case err != nil:
		now.Problem = "The bot's device could not be verified: " + err.Error() + ". The next start tries again."
	}
	_, _ = d.mach.GetOwnCrossSigningPublicKeys(ctx) // caches them before concurrent readers start
	d.mu.Lock()
	before := d.identity
	d.identity = now
	d.mu.Unlock()
	if now.Problem != "" && now.Problem != before.Problem {
		d.log.Warn("the bot's device is not verified", zap.String("device", now.Device), zap.String("problem", now.Problem))
	}
}

// problem is a failure that only a person can fix.
type problem struct{ text string }

func (p *problem) Error() string { return p.text }

func (d *Device) signDevice(ctx context.Context) (verified bool, err error) {
	me := d.o.Client.UserID
	if _, err := d.mach.FetchKeys(ctx, []id.UserID{me}, true); err != nil {
		return false, err
	}
	public, err := d.mach.GetCrossSigningPublicKeys(ctx, me)
	if err != nil {
		return false, err
	}
	if err := d.loadIdentity(ctx); err != nil {
		return false, err
	}
	switch keys := d.mach.CrossSigningKeys; {
	case public == nil:
		err = d.makeIdentity(ctx)
	case keys == nil || keys.MasterKey.PublicKey() != public.MasterKey:
		d.mach.CrossSigningKeys = nil
		err = d.recoverIdentity(ctx, keys != nil)
	default:
		if err := d.keepRecovery(ctx); err != nil {
			return false, err
		}
		signed, err := d.store.IsKeySignedBy(ctx, me, d.mach.GetAccount().SigningKey(), me, public.SelfSigningKey)
		if err != nil || signed {
			return signed, err
		}
	}
	if err != nil {
		return false, err
	}
	if err := errors.Join(d.mach.SignOwnDevice(ctx, d.mach.OwnIdentity()), d.mach.SignOwnMasterKey(ctx)); err != nil {
		return false, err
	}
	d.log.Info("the bot's device is verified", zap.String("device", d.store.device))
	return true, nil
}

func (d *Device) loadIdentity(ctx context.Context) error {
	text, err := d.store.GetSecret(ctx, secretSeeds)
	if err != nil || text == "" || d.mach.CrossSigningKeys != nil {
		return err
	}
	var seeds crypto.CrossSigningSeeds
	if err := json.Unmarshal([]byte(text), &seeds); err != nil {
		return err
	}
	return d.mach.ImportCrossSigningKeys(seeds)
}

// keepIdentity stores an identity before it is published.
func (d *Device) keepIdentity(ctx context.Context, keys *crypto.CrossSigningKeysCache) error {
	text, err := json.Marshal(keys.Seeds())
	if err != nil {
		return err
	}
	return errors.Join(d.store.PutSecret(ctx, secretSeeds, string(text)), d.store.flush(ctx))
}

// makeIdentity creates the bot's identity, or publishes one that did not reach the homeserver before. The recovery key comes
// last, so that nothing stays at a homeserver that requires a password.
func (d *Device) makeIdentity(ctx context.Context) error {
	keys := d.mach.CrossSigningKeys
	if keys == nil {
		var err error
		if keys, err = d.mach.GenerateCrossSigningKeys(); err != nil {
			return err
		}
		if err := d.keepIdentity(ctx, keys); err != nil {
			return err
		}
	}
	if err := d.mach.PublishCrossSigningKeys(ctx, keys, d.authenticate); err != nil {
		var refused mautrix.HTTPError
		if errors.As(err, &refused) && refused.IsStatus(http.StatusUnauthorized) {
			return &problem{"The homeserver wants the bot's password before it lets the bot make its identity: set matrix.password beside the access token, or verify the device in another client of the bot."}
		}
		return err
	}
	d.log.Info("made the bot's identity")
	return d.makeRecovery(ctx)
}

// keepRecovery completes the recovery key of the relay's identity after a crash. It keeps a key that exists, perhaps of another
// client.
func (d *Device) keepRecovery(ctx context.Context) error {
	_, err := d.mach.SSSS.GetDefaultKeyID(ctx)
	switch {
	case !errors.Is(err, ssss.ErrNoDefaultKeyID):
		return err
	case d.o.RecoveryKey != "": // another client created the identity
		return nil
	}
	return d.makeRecovery(ctx)
}

// makeRecovery stores a new recovery key, then the identity encrypted with it at the homeserver.
func (d *Device) makeRecovery(ctx context.Context) error {
	key, err := d.mach.SSSS.GenerateAndUploadKey(ctx, "")
	if err != nil {
		return err
	}
	if err := d.mach.UploadCrossSigningKeysToSSSS(ctx, key, d.mach.CrossSigningKeys); err != nil {
		return err
	}
	if err := errors.Join(d.store.PutSecret(ctx, secretRecovery, key.RecoveryKey()), d.store.flush(ctx)); err != nil {
		return err
	}
	return d.mach.SSSS.SetDefaultKeyID(ctx, key.ID)
}

// authenticate answers a homeserver that requires the password.
func (d *Device) authenticate(asked *mautrix.RespUserInteractive) any {
	if d.o.Password == "" {
		return nil
	}
	return &mautrix.ReqUIAuthLogin{
		BaseAuthData: mautrix.BaseAuthData{Type: mautrix.AuthTypePassword, Session: asked.Session},
		User:         d.o.Client.UserID.String(), Password: d.o.Password,
	}
}

// recoverIdentity recovers the identity of another client. replaced reports that it replaced the relay's.
func (d *Device) recoverIdentity(ctx context.Context, replaced bool) error {
	if d.o.RecoveryKey == "" {
		if replaced {
			return &problem{"Another client has replaced the bot's identity: set matrix.recovery_key to the recovery key that it showed."}
		}
		return &problem{"The bot's identity was made by another client, or with keys that the relay has lost: set matrix.recovery_key to its recovery key."}
	}
	id, data, err := d.mach.SSSS.GetDefaultKeyData(ctx)
	if err != nil {
		return &problem{"The homeserver has no recovery key for the bot's identity: set up recovery in the client that made it, then set matrix.recovery_key."}
	}
	key, err := data.VerifyRecoveryKey(id, d.o.RecoveryKey)
	if err != nil {
		return &problem{"matrix.recovery_key is not the recovery key of the bot's identity."}
	}
	if err := d.mach.FetchCrossSigningKeysFromSSSS(ctx, key); err != nil {
		return err
	}
	return errors.Join(d.store.PutSecret(ctx, secretRecovery, d.o.RecoveryKey), d.keepIdentity(ctx, d.mach.CrossSigningKeys))
}

func isNotFound(err error) bool {
	var refused mautrix.HTTPError
	return errors.As(err, &refused) && refused.IsStatus(http.StatusNotFound)
}
