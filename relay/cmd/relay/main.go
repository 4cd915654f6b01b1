// Command relay is Slipway's relay service.
package main

func main() {}
