package delivery

import "slipway/relay/internal/format"

// ReplaceRender replaces what renders messages until restore is called.
func ReplaceRender(f func(format.Message, format.Options) format.Event) (restore func()) {
	was := renderEvent
	renderEvent = f
	return func() { renderEvent = was }
}

// Finished returns how many final entries the queues remember once Run has ended.
func (d *Delivery) Finished() (n int) {
	for _, q := range d.all() {
		n += len(q.finished)
	}
	return n
}
