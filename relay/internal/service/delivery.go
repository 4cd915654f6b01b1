package service

import "slipway/relay/internal/delivery"

// Delivery returns the delivery; nil while another relay delivers.
func (s *Service) Delivery() *delivery.Delivery { return s.delivery.Load() }
