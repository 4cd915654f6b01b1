package main

import (
	"encoding/json"
	"strings"
	"sync"
)

const person = "@person:bench.test"

// keyServer is the part of a homeserver that deals with keys of devices.
type keyServer struct {
	mu      sync.Mutex
	devices map[string]map[string]json.RawMessage            // by user and device
	once    map[string]map[string]map[string]json.RawMessage // one-time keys, by user and device
}

// upload takes what a device uploads.
func (k *keyServer) upload(user, device string, body []byte) map[string]any {
	var in struct {
		DeviceKeys  json.RawMessage            `json:"device_keys"`
		OneTimeKeys map[string]json.RawMessage `json:"one_time_keys"`
	}
	_ = json.Unmarshal(body, &in) // of this repository
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.devices[user] == nil {
		k.devices[user], k.once[user] = map[string]json.RawMessage{}, map[string]map[string]json.RawMessage{}
	}
	if in.DeviceKeys != nil {
		k.devices[user][device] = in.DeviceKeys
	}
	if in.OneTimeKeys != nil {
		k.once[user][device] = in.OneTimeKeys
	}
	return map[string]any{"one_time_key_counts": map[string]int{"signed_curve25519": len(k.once[user][device])}}
}

// query returns the devices of users.
func (k *keyServer) query(body []byte) map[string]any {
	var in struct {
		DeviceKeys map[string]any `json:"device_keys"`
	}
	_ = json.Unmarshal(body, &in) // of this repository
	k.mu.Lock()
	defer k.mu.Unlock()
	found := map[string]any{}
	for user := range in.DeviceKeys {
		devices := map[string]json.RawMessage{}
		for name, keys := range k.devices[user] {
			devices[name] = keys
		}
		found[user] = devices
	}
	return map[string]any{"device_keys": found}
}

// claim gives away a one-time key of each device that is asked for.
func (k *keyServer) claim(body []byte) map[string]any {
	var in struct {
		OneTimeKeys map[string]map[string]string `json:"one_time_keys"`
	}
	_ = json.Unmarshal(body, &in) // of this repository
	k.mu.Lock()
	defer k.mu.Unlock()
	given := map[string]map[string]any{}
	for user, devices := range in.OneTimeKeys {
		given[user] = map[string]any{}
		for device := range devices {
			for name, key := range k.once[user][device] {
				given[user][device] = map[string]any{name: key}
				delete(k.once[user][device], name)
				break
			}
		}
	}
	return map[string]any{"one_time_keys": given}
}

// answerKeys answers requests about keys and about who is in an encrypted room; ok is false for all others. token is that of the sender.
func (s *sink) answerKeys(path string, part []string, token string, body []byte) (answer any, ok bool) {
	if s.keys == nil {
		return nil, false
	}
	user, device := bot, "BENCH"
	if strings.HasPrefix(token, person) {
		user, device = person, strings.TrimPrefix(token, person)
	}
	switch {
	case path == "keys/upload":
		return s.keys.upload(user, device, body), true
	case path == "keys/query":
		return s.keys.query(body), true
	case path == "keys/claim":
		return s.keys.claim(body), true
	case part[0] == "sendToDevice" && len(part) > 1 && part[1] == "m.room.encrypted":
		s.reader.hear(body)
		return struct{}{}, true
	case len(part) == 3 && part[2] == "members":
		member := func(user string) map[string]any {
			return map[string]any{"type": "m.room.member", "state_key": user, "content": map[string]string{"membership": "join"}}
		}
		return map[string]any{"chunk": []any{member(bot), member(person)}}, true
	case len(part) >= 4 && part[2] == "state" && part[3] == "m.room.encryption":
		return map[string]string{"algorithm": "m.megolm.v1.aes-sha2"}, true
	}
	return nil, false
}
