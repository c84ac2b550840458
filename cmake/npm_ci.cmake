# Installs the packages in package-lock.json, from npm's cache if possible: cmake -DNPM=… -DFOLDER=… -P npm_ci.cmake
execute_process(COMMAND ${NPM} ci --ignore-scripts --prefer-offline --no-audit --no-fund --loglevel=error
                WORKING_DIRECTORY ${FOLDER} RESULT_VARIABLE result OUTPUT_QUIET)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "web: npm ci failed, see above. To build the command without the page, configure with "
                      "-DATTEND_WEB=OFF.")
endif()
file(TOUCH ${FOLDER}/node_modules/.package-lock.json)
