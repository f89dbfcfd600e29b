-- A plain decimal whole number from least to most, else nil. tonumber alone would also take "inf",
-- "nan", "0x10", "1e3" and " 1 ".
local function whole(text, least, most)
  if not text or #text > 16 or not string.match(text, '^%d+$') then return nil end
  local number = tonumber(text)
  if number < least or number > most then return nil end
  return number
end
