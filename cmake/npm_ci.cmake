# Installs what package-lock.json names, from npm's cache where it can: cmake -DNPM=… -DFOLDER=… -P npm_ci.cmake
execute_process(COMMAND ${NPM} ci --ignore-scripts --prefer-offline --no-audit --no-fund --loglevel=error
                WORKING_DIRECTORY ${FOLDER} RESULT_VARIABLE result OUTPUT_QUIET)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "web: npm ci failed, see above. Configured with -DATTEND_WEB=OFF, the command is built without "
                      "the page.")
endif()
file(TOUCH ${FOLDER}/node_modules/.package-lock.json)
