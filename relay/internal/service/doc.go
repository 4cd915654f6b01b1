// Package service joins accounts, intake, readers and delivery to one service over one store, and decides which of several relays on a
// database delivers. It knows no HTTP and no Matrix SDK.
//
// A message enters through [Intake.Accept], which answers only after it is committed to the outbox. [delivery.Delivery]
// reads the outbox and sends it through the Sender in [Options]. docs/architecture.md names the file of each step.
package service
