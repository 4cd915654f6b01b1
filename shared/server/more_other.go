//go:build !linux

package server

func (c *conn) writeMore(p []byte) (int, error) { return c.Conn.Write(p) }
