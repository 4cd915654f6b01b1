// Command registry is Slipway's registry service.
package main

func main() {}
