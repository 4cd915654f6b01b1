// Package collect frees the bytes that no manifest needs any more, while
// registries serve and clients push.
//
// A run goes through the storage four times at most:
//
//  1. Mark and set aside. Every repository is read; links that nothing needs are
//     moved aside (driver.SetAside), and then all bytes that nothing needs. What
//     changed between the decision and the move is moved back at once.
//  2. Wait (driver.Barrier) until every writer has ended who may have looked at
//     something before it was moved, and may not have written yet what relies on
//     it.
//  3. Confirm. Every repository is read again, and all that anything in its
//     place needs is moved back. What lies in place now keeps all that it needs
//     in place, whatever the first look thought of it.
//  4. Purge what is still aside.
//
// So the first look may be wrong in any way without harm, and nothing is ever
// unlinked in its place. Readers find what is aside; writers move back what they
// need and find there; a purge and they exclude each other, because each object
// is one name in one directory. A run that is killed leaves some garbage aside,
// with which the next one begins (recover.go).
//
// docs/decisions/0009-garbage-collection.md has the argument.
package collect
