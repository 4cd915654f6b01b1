// Package service combines accounts, intake, readers and delivery into one service over one store, and decides which of several relays on a
// database delivers. It depends on neither HTTP nor a Matrix SDK.
//
// A message enters through [Intake.Accept], which answers only after it is committed to the outbox. [delivery.Delivery]
// reads the outbox and sends it through the Sender in [Options]. ARCHITECTURE.md names the file of each step.
package service
