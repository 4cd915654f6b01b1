// Package intake accepts messages and answers what has become of them: limits, idempotency keys, lists, waiting, delivering
// again and withdrawing. It knows nothing of delivery but the store between them.
package intake
