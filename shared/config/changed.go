package config

import "reflect"

// Changed returns the keys of the settings whose values differ between two configurations of one type, such as http.addr. A list
// is one setting.
func Changed(before, after any) []string {
	return changed(reflect.ValueOf(before), reflect.ValueOf(after), "")
}

func changed(before, after reflect.Value, path string) (keys []string) {
	if before.Kind() == reflect.Pointer && !before.IsNil() && !after.IsNil() {
		before, after = before.Elem(), after.Elem()
	}
	if before.Kind() != reflect.Struct || before.Type() == secretType {
		if !reflect.DeepEqual(before.Interface(), after.Interface()) {
			keys = append(keys, path)
		}
		return keys
	}
	for i := range before.NumField() {
		f := before.Type().Field(i)
		key := f.Tag.Get("key")
		switch {
		case !f.IsExported():
			continue
		case key != "" && path != "":
			key = path + "." + key
		case key == "": // its settings are those of the section
			key = path
		}
		keys = append(keys, changed(before.Field(i), after.Field(i), key)...)
	}
	return keys
}
