package headlesscrm

import "encoding/json"

// Opt is a value that a body may omit or set to null: Set("text"), Null[string](), or nothing.
//
// It is a map because encoding/json omits empty maps, but cannot omit structs before Go 1.24.
type Opt[Value any] map[bool]Value

// Set returns a value that is sent.
func Set[Value any](value Value) Opt[Value] { return Opt[Value]{true: value} }

// Null returns a value that is sent as null, which clears a field.
func Null[Value any]() Opt[Value] {
	var none Value
	return Opt[Value]{false: none}
}

// Get returns the value, and whether there is one.
func (o Opt[Value]) Get() (Value, bool) {
	value, isSet := o[true]
	return value, isSet
}

// MarshalJSON implements json.Marshaler.
func (o Opt[Value]) MarshalJSON() ([]byte, error) {
	if value, isSet := o[true]; isSet {
		return json.Marshal(value)
	}
	return []byte("null"), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Opt[Value]) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*o = Null[Value]()
		return nil
	}
	var value Value
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	*o = Set(value)
	return nil
}
