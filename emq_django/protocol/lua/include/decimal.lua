-- All digits of a whole number: '..' and tostring turn 1e14 and above into "1e+14".
local function decimal(number)
  return string.format('%.0f', number)
end
