package relay

import (
	"slipway/relay/internal/account"
	"slipway/relay/internal/delivery"
	"slipway/relay/internal/intake"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/message"
	"slipway/relay/internal/refusal"
)

// The nouns of the packages that a [Service] is made of, under the names that its callers know.

type (
	// Message is [message.Message].
	Message = message.Message
	// State is [message.State].
	State = message.State
)

type (
	// Error is [refusal.Error].
	Error = refusal.Error
	// Kind is [refusal.Kind].
	Kind = refusal.Kind
)

type (
	// Viewer is [account.Principal].
	Viewer = account.Principal
	// User is [account.User].
	User = account.User
	// UserInput is [account.UserInput].
	UserInput = account.UserInput
	// Session is [account.Session].
	Session = account.Session
	// Application is [account.Application].
	Application = account.Application
	// ApplicationInput is [account.ApplicationInput].
	ApplicationInput = account.ApplicationInput
	// IssuedToken is [account.IssuedToken].
	IssuedToken = account.IssuedToken
	// Scale is [account.Scale].
	Scale = account.Scale
	// Format is [account.Format].
	Format = account.Format
	// ShowSender is [account.ShowSender].
	ShowSender = account.ShowSender
	// Admin is [account.Admin].
	Admin = account.Admin
	// ImportUser is [account.ImportUser].
	ImportUser = account.ImportUser
	// ImportApplication is [account.ImportApplication].
	ImportApplication = account.ImportApplication
	// Imported is [account.Imported].
	Imported = account.Imported
)

// See [message.State].
const (
	StateQueued    = message.StateQueued
	StateRetryWait = message.StateRetryWait
	StateBlocked   = message.StateBlocked
	StateSent      = message.StateSent
	StateAmbiguous = message.StateAmbiguous
	StateDead      = message.StateDead
	StateCancelled = message.StateCancelled
	StateRedacted  = message.StateRedacted
	StateForgotten = message.StateForgotten

	MinPriority = message.MinPriority
	MaxPriority = message.MaxPriority
)

// States lists the states that a message can have.
var States = message.States

// See [refusal.Kind].
const (
	KindInvalid      = refusal.KindInvalid
	KindUnauthorized = refusal.KindUnauthorized
	KindForbidden    = refusal.KindForbidden
	KindNotFound     = refusal.KindNotFound
	KindConflict     = refusal.KindConflict
	KindTooLarge     = refusal.KindTooLarge
	KindRateLimited  = refusal.KindRateLimited
	KindUnavailable  = refusal.KindUnavailable
	KindInternal     = refusal.KindInternal
)

// See [account.Format].
const (
	FormatAuto     = account.FormatAuto
	FormatMarkdown = account.FormatMarkdown
	FormatPlain    = account.FormatPlain
	FormatHTML     = account.FormatHTML
)

// See [account.ShowSender].
const (
	ShowAuto   = account.ShowAuto
	ShowAlways = account.ShowAlways
	ShowNever  = account.ShowNever
)

// See [account.Scale].
const (
	ScaleAuto   = account.ScaleAuto
	ScaleNative = account.ScaleNative
	ScaleGotify = account.ScaleGotify
)

// KindOf tells the kind of err.
func KindOf(err error) Kind { return refusal.KindOf(err) }

type (
	// Room is [account.Room].
	Room = account.Room
	// AcceptRequest is [intake.Request].
	AcceptRequest = intake.Request
	// Accepted is [intake.Accepted].
	Accepted = intake.Accepted
	// MessageFilter is [intake.Filter].
	MessageFilter = intake.Filter
	// MessagePage is [intake.Page].
	MessagePage = intake.Page
	// Hour is [intake.Hour].
	Hour = intake.Hour
	// Limits is [intake.Limits].
	Limits = intake.Limits
	// Status is [delivery.Status].
	Status = delivery.Status
	// Sender is [delivery.Sender].
	Sender = delivery.Sender
	// Rooms is [delivery.Rooms].
	Rooms = delivery.Rooms
	// Outgoing is [matrix.Outgoing].
	Outgoing = matrix.Outgoing
	// Redaction is [matrix.Redaction].
	Redaction = matrix.Redaction
	// Found is [matrix.Found].
	Found = matrix.Found
	// NewRoom is [matrix.NewRoom].
	NewRoom = matrix.NewRoom
	// RoomInfo is [matrix.RoomInfo].
	RoomInfo = matrix.RoomInfo
	// Class is [matrix.Class].
	Class = matrix.Class
	// SendError is [matrix.SendError].
	SendError = matrix.SendError
)

// MaxPage is the largest page of a list.
const MaxPage = intake.MaxPage

// See [matrix.Class].
const (
	ClassRetry     = matrix.ClassRetry
	ClassAway      = matrix.ClassAway
	ClassWait      = matrix.ClassWait
	ClassRelogin   = matrix.ClassRelogin
	ClassLocked    = matrix.ClassLocked
	ClassJoin      = matrix.ClassJoin
	ClassBlock     = matrix.ClassBlock
	ClassEncrypted = matrix.ClassEncrypted
	ClassTooLarge  = matrix.ClassTooLarge
	ClassDead      = matrix.ClassDead
	ClassReconcile = matrix.ClassReconcile
)

// ErrNoLogin is [matrix.ErrNoLogin].
var ErrNoLogin = matrix.ErrNoLogin
