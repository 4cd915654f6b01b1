package delivery

import "slipway/relay/internal/format"

// ReplaceRender replaces what renders messages until restore is called.
func ReplaceRender(f func(format.Message, format.Options) format.Event) (restore func()) {
	was := renderEvent
	renderEvent = f
	return func() { renderEvent = was }
}
